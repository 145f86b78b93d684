"""What the standalone scheduler watches: its own waiting pods, all pods that have a node, and the objects around
them.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from kube.objects.api_resource import DISRUPTION_BUDGETS, NAMESPACES, PODS, WATCHED, Resource
from kube.objects.model import Pod
from kube.store.collection import Collection as Held
from kube.store.collection import Listener
from kube.store.store import Store
from prebinder.runtime.informers import collections_in

ASSIGNED: Final = PODS.selected("assigned", "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")

AROUND: Final = (*(resource for resource in WATCHED if resource is not PODS), DISRUPTION_BUDGETS, NAMESPACES)
"""The kinds that are watched as a whole."""


def waiting_for(scheduler: str) -> Resource:
    """Return the pods of a scheduler that have no node."""
    return PODS.selected(f"waiting-{scheduler}", f"spec.schedulerName={scheduler},spec.nodeName=")


class Watches:
    """The collections to be filled, by what is watched for them. `pods` are those that wait, of all our schedulers."""

    def __init__(self, store: Store, schedulers: Collection[str]) -> None:
        waiting: dict[str, Held[Pod]] = {name: Held() for name in schedulers}
        self.pods = _joined(waiting)
        self.collections: Mapping[Resource, Held[Any]] = {
            **{waiting_for(name): pods for name, pods in waiting.items()},
            ASSIGNED: store.pods,
            **collections_in(store, AROUND),
        }


def _joined(parts: Mapping[str, Held[Pod]]) -> Held[Pod]:
    """Return a collection that follows all others: a list of one part implies nothing about the pods of another."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    joined: Held[Pod] = Held()
    for part in parts.values():
        part.listeners.append(_follower(joined))
    return joined


def _follower(joined: Held[Pod]) -> Listener[Pod]:
    def follow(old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            joined.upsert(new)
            return
        held = joined.items.get(old.key) if old is not None else None
        # A pod recreated for another of our schedulers may have been shown before the end of this one.
        if old is not None and held is not None and held.uid == old.uid:
            joined.delete(old.key, held.resource_version)

    return follow
