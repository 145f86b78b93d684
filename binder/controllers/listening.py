"""Listening to a collection of the store for as long as a block lasts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")
Listener = Callable[[T | None, T | None], None]
"""Called with an object before and after a change; None where it was not, or is no more."""


class Listened(Protocol[T]):
    """The part of kube.store.store.Collection needed here."""

    listeners: list[Listener[T]]


@contextmanager
def listening(collection: Listened[T], listener: Listener[T]) -> Iterator[None]:
    """Have the listener called on each change while inside."""
    collection.listeners.append(listener)
    try:
        yield
    finally:
        collection.listeners.remove(listener)
