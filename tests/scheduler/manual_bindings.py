"""A scheduler in memory that a tool drives, and pods for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Node, Pod
from scheduler.binding.pod_binding import Rejected, RejectionReason
from scheduler.standalone.manual_binding import ManualBinding
from tests.builders import claim, node, storage_class, volume
from tests.scheduler.scheduler_in_memory import Desk, pod

SMALL, LARGE = node("n1", allocatable={"cpu": "1"}), node("n2", zone="b", allocatable={"cpu": "8"})
WEB: Final = "default/web"
LOST: Final = Rejection(Reason.SCHEDULER_ERROR, WEB, "an answer", "none")


@asynccontextmanager
async def driven(*nodes: Node) -> AsyncIterator[tuple[Desk, ManualBinding]]:
    desk = Desk(*(nodes or (SMALL, LARGE)))
    driven = ManualBinding(desk.scheduler)
    async with desk.running():
        yield desk, driven


def rejection(result: object) -> RejectionReason:
    assert isinstance(result, Rejected), result
    return result.reason


def with_claim(desk: Desk, name: str = "web") -> Pod:
    """A pod that waits for the volume it takes."""
    desk.store.classes.upsert(storage_class())
    desk.store.claims.upsert(claim())
    desk.store.volumes.upsert(volume("pv-1", zone="b"))
    return pod(name, claims=["data"])
