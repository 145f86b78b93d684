"""Which modules of the product are on the call stack when a function is called."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

from tests.test_architecture import PRODUCT, ROOT

Stack = tuple[str, ...]
"""Modules, outermost first."""


def modules_on(frame: FrameType | None) -> Stack:
    """Return the product's modules on the stack that ends with this frame, outermost first."""
    modules: list[str] = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PRODUCT:
            modules.append(str(path.relative_to(ROOT).with_suffix("")))
        frame = frame.f_back
    return tuple(module for module, _ in groupby(reversed(modules)))


@contextmanager
def stacks_at(*functions: Callable[..., Any]) -> Iterator[set[Stack]]:
    """Collect the stacks of all calls of these functions inside the context."""
    stacks: set[Stack] = set()
    codes = {function.__code__ for function in functions}

    def called(frame: FrameType, occasion: str, _: object) -> None:
        if occasion == "call" and frame.f_code in codes:
            stacks.add(modules_on(frame))

    sys.setprofile(called)
    try:
        yield stacks
    finally:
        sys.setprofile(None)
