"""Judges what the controller has promised: kube-scheduler's own filters, and every way to place the pods.

It knows nothing of bookings. Promised is a node to each pod that kube-scheduler may place, and to each to which a
volume was committed.
"""

import json
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from binder.matching.index import VolumeIndex
from binder.model.view import View
from kube.decoding.decode import DECODERS
from kube.objects.model import Pod, Record
from kube.store.store import snapshot_of
from scheduler.cycle.cycle import feasible, judge
from scheduler.plugins.registry import default_profile
from scheduler.state.cluster import view_of
from tests.builders import EPOCH
from tests.fakes.kube_api import KINDS, FakeKubeApi

PROFILE = default_profile("default-scheduler")


def records_of(server: FakeKubeApi) -> list[Record]:
    return [
        DECODERS[kind](json.dumps(document).encode())
        for plural, kind in KINDS.items()
        for document in server.all(plural)
    ]


def fitting_nodes(pod: Pod, records: Sequence[Record], assumed: Iterable[Pod] = ()) -> list[str]:
    """Return the nodes that kube-scheduler's filters leave, beside the pods on nodes and those assumed there."""
    others = {other.key: other for other in assumed}
    seen = [others.get(record.key, record) if isinstance(record, Pod) else record for record in records]
    snapshot = snapshot_of(seen)
    cluster = view_of(View(snapshot, VolumeIndex.of(snapshot.volumes.values())), EPOCH)
    return [node.name for node in feasible(judge(pod, cluster, PROFILE), cluster, PROFILE)]


def placeable(pods: Sequence[Pod], records: Sequence[Record], assumed: tuple[Pod, ...] = ()) -> bool:
    """Whether all of the pods can be placed together; those that no node takes even alone are left out."""
    if not assumed:
        pods = sorted(
            (pod for pod in pods if fitting_nodes(pod, records)), key=lambda pod: len(fitting_nodes(pod, records))
        )
    if not pods:
        return True
    return any(
        placeable(pods[1:], records, (*assumed, replace(pods[0], node_name=node)))
        for node in fitting_nodes(pods[0], records, assumed)
    )
