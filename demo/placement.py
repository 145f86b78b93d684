"""The demo's third act: the same StatefulSets twice, placed by plain kube-scheduler and by our own scheduler.

Both sides have volumes of the same sizes in the same zones. In zone-a they are far too large for the first set, and its
nodes are the emptiest: kube-scheduler chooses the node without looking at what is wasted there
(kubernetes/kubernetes#83323). The set that comes last needs the large ones.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from binder.model.decision import Mode
from demo.documents import Document, Plan, namespace_document, stateful_set, storage_class, volume_document
from demo.show import Show
from demo.watch import Watcher
from kube.client.api import KubeApi
from kube.errors import NotFound
from kube.objects.api_resource import PODS
from kube.objects.model import Pod
from kube.rules.quantity import format_quantity
from kube.rules.topology import ZONE_LABEL, zone_of
from kube.store.snapshot import Snapshot

SCHEDULER: Final = "zone-scheduler"
_PLAIN: Final = "default-scheduler"
_DRIVER: Final = "san.csi.demo"
"""It is never probed: this act is not about health."""
LEDGER: Final = "ledger"
ARCHIVE: Final = "archive"
REPLICAS: Final = {LEDGER: 3, ARCHIVE: 1}
_SIZES: Final = {LEDGER: {"wal": "10Gi", "data": "20Gi"}, ARCHIVE: {"cold": "100Gi", "hot": "120Gi"}}
_VOLUMES: Final = {
    "zone-a": ("100Gi", "120Gi"),
    "zone-b": ("10Gi", "10Gi", "20Gi", "20Gi"),
    "zone-c": ("10Gi", "20Gi"),
}

Create = Callable[[str, list[Document]], Awaitable[None]]
"""Creates documents on the cluster, kept in a file of that name."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: pods in a namespace of its own, which is also the name of their class."""

    plan: Plan
    mode: Mode

    @property
    def name(self) -> str:
        return self.plan.namespace


SIDES: Final = (
    Side(Plan("plain", "plain", gated=False, scheduler=_PLAIN), Mode.OFF),
    Side(Plan("steered", "steered", gated=True, scheduler=SCHEDULER), Mode.ANNOTATE),
)


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""

    @property
    def rejects(self) -> bool:
        return (self.type, self.status) == ("PodScheduled", "False") and self.reason != "SchedulingGated"


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Object(msgspec.Struct):
    status: _Status = field(default_factory=_Status)


def storage_documents(side: Side) -> list[Document]:
    """Return what is there before any pod: namespace, class and volumes."""
    volumes = [
        volume_document(f"{side.name}-{zone[-1]}{number}", size, side.name, (ZONE_LABEL, zone), _DRIVER, {})
        for zone, sizes in _VOLUMES.items()
        for number, size in enumerate(sizes, start=1)
    ]
    return [namespace_document(side.name), storage_class(side.name, side.mode), *volumes]


def set_document(side: Side, name: str) -> Document:
    """Return one of the two sets: the ledger needs the small volumes, the archive comes last and needs the large
    ones.
    """
    return stateful_set(name, _SIZES[name], side.plan, REPLICAS[name])


async def play_placement(show: Show, watcher: Watcher, create: Create) -> None:
    """Play it until every pod runs, or has an Event with the reason why it cannot."""
    storage = [document for side in SIDES for document in storage_documents(side)]
    await create("twice-the-storage", storage)
    await show.until(lambda _: watcher.may_use(storage), "the volumes of the comparison to be Available")
    for side in SIDES:
        await create(f"{side.name}-{LEDGER}", [set_document(side, LEDGER)])
    show.say(f"StatefulSet {LEDGER}, twice: with plain kube-scheduler, and with pvc-prebinder scheduler")
    running = [f"{side.name}/{LEDGER}-{number}" for side in SIDES for number in range(REPLICAS[LEDGER])]
    await show.until(lambda _: all(_runs(watcher.snapshot, key) for key in running), f"all pods of {LEDGER} to run")
    for side in SIDES:
        await create(f"{side.name}-{ARCHIVE}", [set_document(side, ARCHIVE)])
    show.say(f"StatefulSet {ARCHIVE}, twice: it needs the large volumes")
    for key in (f"{side.name}/{ARCHIVE}-0" for side in SIDES):

        async def decided(key: str = key) -> bool:
            return _runs(watcher.snapshot, key) or bool(await _rejection(watcher.api, key))

        await show.until_found(decided, f"{key} to run or to be rejected")


async def rejected(watcher: Watcher) -> dict[str, str]:
    """Return the schedulers' messages about the pods of this act that have no node, by their keys."""
    names = {side.name for side in SIDES}
    waiting = [pod.key for pod in watcher.snapshot.pods.values() if pod.namespace in names and not pod.node_name]
    return {key: await _rejection(watcher.api, key) for key in waiting}


def placements(snapshot: Snapshot, rejected: Mapping[str, str]) -> Iterator[str]:
    """Return where each pod is, beside its twin on the other side."""
    names = [f"{name}-{number}" for name, replicas in REPLICAS.items() for number in range(replicas)]
    rows = [row for name in names for side in SIDES if (row := _row(snapshot, rejected, side, name))]
    if not rows:
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    yield ""
    yield "The same StatefulSets on the same volumes, with plain kube-scheduler and with pvc-prebinder scheduler:"
    for row in rows:
        yield "  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])


def _runs(snapshot: Snapshot, key: str) -> bool:
    pod = snapshot.pods.get(key)
    return pod is not None and pod.phase == "Running"


async def _rejection(api: KubeApi, key: str) -> str:
    """Return a scheduler's message about the pod, empty if none; a message about the gate does not count."""
    namespace, _, name = key.partition("/")
    try:
        pod = msgspec.json.decode(await api.get(PODS, name, namespace), type=_Object)
    except NotFound:  # not created yet
        return ""
    return next((condition.message for condition in pod.status.conditions if condition.rejects), "")


def _row(snapshot: Snapshot, rejected: Mapping[str, str], side: Side, name: str) -> tuple[str, ...] | None:
    """Return pod, scheduler, zone, node, and the volumes with their waste, or why it waits."""
    pod = snapshot.pods.get(f"{side.name}/{name}")
    if pod is None:
        return None
    node = snapshot.nodes.get(pod.node_name)
    if node is None:
        return name, side.plan.scheduler, "-", "-", f"waits: {rejected.get(pod.key, '').partition('. ')[0]}"
    volumes = ", ".join(_volumes(snapshot, pod))
    return name, side.plan.scheduler, zone_of(node.labels), node.name, volumes


def _volumes(snapshot: Snapshot, pod: Pod) -> Iterator[str]:
    # The order of a StatefulSet's claims is not defined.
    for claim in sorted((snapshot.claims[key] for key in pod.claim_keys), key=lambda claim: claim.request):
        volume = snapshot.volumes.get(claim.volume_name)
        wanted, given = claim.request, volume.capacity if volume else 0
        yield format_quantity(given) + (f" ({format_quantity(given - wanted)} wasted)" if given > wanted else "")
