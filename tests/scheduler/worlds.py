"""Small worlds with variants: each object has several, None where it is missing."""

from collections.abc import Mapping
from datetime import timedelta
from itertools import count
from typing import Any

from msgspec.structs import replace

from binder.matching.index import VolumeIndex
from binder.model.view import View
from binder.reservation.contract import Annotations, ClaimReservation, Holder, VolumeReservation
from kube.objects.constraints import Constraints, HostPort, PodTerm, SpreadConstraint
from kube.objects.labels import LabelSelector
from kube.objects.model import (
    READ_WRITE_ONCE_POD,
    SELECTED_NODE,
    Claim,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    Node,
    Pod,
    Record,
    StorageClass,
    Taint,
    Toleration,
    Volume,
    VolumeAttachment,
    record_key,
)
from kube.objects.reports import StorageCondition
from kube.rules.disruption import DisruptionBudget
from kube.store.collection import Collection
from kube.store.store import Store
from scheduler.state.cluster import ClusterView, view_of
from tests import builders
from tests.builders import EPOCH, HOSTNAME, ZONE

World = Mapping[str, Record | None]

DRIVER = "disk.csi.example"
WEB, DB = {"app": "web"}, {"app": "db"}
WEBS, DBS = LabelSelector(builders.pairs(WEB)), LabelSelector(builders.pairs(DB))
GPU = Taint("gpu", "NoSchedule")


def _nodes(name: str) -> list[Record]:
    return [
        builders.node(name, allocatable={"cpu": "2"}),
        builders.node(name, zone="b", allocatable={"cpu": "4"}),
        builders.node(name, zone=None, allocatable={"cpu": "2", "pods": "1"}),
        builders.node(name, allocatable={"cpu": "2"}, labels={"disk": "ssd"}),
        builders.node(name, taints=[GPU], allocatable={"cpu": "2"}, labels={"disk": "ssd"}),
        builders.node(name, unschedulable=True),
    ]


def _placed(name: str) -> list[Record]:
    """Pods on nodes. If its immutable fields differ, it is another pod."""
    placed = [
        builders.pod(name, node="n1", requests={"cpu": "1"}),
        builders.pod(name, node="n2", requests={"cpu": "2"}, labels=WEB),
        builders.pod(name, node="n1", requests={"cpu": "2"}, labels=DB),
        builders.pod(name, node="n1", labels=WEB, deleting=True),
        builders.pod(name, node="n1", labels=WEB),
        builders.pod(name, node="n1", phase="Succeeded", labels=WEB),
        builders.pod(name, node="n2", constraints=Constraints(ports=(HostPort(80),))),
        builders.pod(name, node="n1", constraints=Constraints(ports=(HostPort(80, ip="10.0.0.1"),))),
        builders.pod(name, node="n1", labels=DB, constraints=Constraints(anti_affinity=(PodTerm(ZONE, WEBS),))),
        builders.pod(name, node="n1", claims=["data"]),
        builders.pod(name, node="n1", claims=["more"]),
        builders.pod(name, node="n2", claims=["data", "more"]),
        builders.pod(name, namespace="other", node="n1", labels=WEB),
    ]
    return [replace(pod, uid=str(hash((pod.node_name, pod.claims, pod.constraints)))) for pod in placed]


def _claims(name: str, volume: str) -> list[Record]:
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    held = Annotations().for_claim(ClaimReservation("pv-1", EPOCH, EPOCH + timedelta(minutes=5)))
    return [
        builders.claim(name),
        builders.claim(name, access_modes=(READ_WRITE_ONCE_POD,)),
        builders.claim(name, volume_name=volume, annotations=bound, phase="Bound"),
        builders.claim(name, volume_name=volume),
        builders.claim(name, size="20Gi"),
        builders.claim(name, storage_class="slow"),
        builders.claim(name, deleting=True),
        builders.claim(name, annotations={SELECTED_NODE: "n2"}),
        builders.claim(name, annotations={key: value for key, value in held.items() if value is not None}),
    ]


def _reserved(claim: str) -> dict[str, str]:
    until = EPOCH + timedelta(minutes=5)
    kept = VolumeReservation(f"default/{claim}", f"uid-default-{claim}", EPOCH, until, Holder("me", 1))
    return Annotations().for_volume(kept)


def _volumes(name: str) -> list[Record]:
    return [
        builders.volume(name),
        builders.volume(name, zone="b"),
        builders.volume(name, node="n1", source="local"),
        builders.volume(name, size="20Gi", labels={ZONE: "b"}),
        builders.volume(name, storage_class="slow"),
        builders.volume(name, claim="default/data"),
        builders.volume(name, claim="default/data", zone="b", phase="Bound"),
        builders.volume(name, claim="default/strange", phase="Bound"),
        builders.volume(name, phase="Released"),
        builders.volume(name, annotations=_reserved("data")),
        builders.volume(name, annotations=_reserved("strange")),
        builders.volume(name, annotations={"scheduler.cloud.example/health": "Inaccessible"}),
        builders.volume(name, annotations={"scheduler.cloud.example/quarantine": "smoke"}),
        builders.volume(name, driver=DRIVER if name == "pv-1" else "other.csi.example", labels={"made": "by hand"}),
    ]


def _classes(name: str) -> list[Record]:
    made = builders.storage_class(name, provisioner=DRIVER)
    return [
        builders.storage_class(name),
        made,
        replace(
            builders.storage_class(name, provisioner=DRIVER), allowed_topologies=builders.node_selector({ZONE: "b"})
        ),
        builders.storage_class(name, binding_mode="Immediate"),
        builders.storage_class(name, binding_mode=None),
        builders.storage_class(name, provisioner="other.csi.example"),
    ]


_CAPACITY = CSIStorageCapacity("default", "left", "uid-left", 1, "fast", LabelSelector(((ZONE, "a"),)), 0)
_TEN = builders.claim().request

VARIANTS: Mapping[str, list[Record]] = {
    "n1": _nodes("n1"),
    "n2": _nodes("n2"),
    "p1": _placed("p1"),
    "p2": _placed("p2"),
    "data": _claims("data", "pv-1"),
    "more": _claims("more", "pv-2"),
    "pv-1": _volumes("pv-1"),
    "pv-2": _volumes("pv-2"),
    "fast": _classes("fast"),
    "slow": _classes("slow")[:2],
    "csi-n1": [
        *(builders.csi_node("n1", limits={DRIVER: limit}) for limit in (0, 1, 2, None)),
        builders.csi_node("n1", limits={}),
        builders.csi_node("n1", reports=[StorageCondition(DRIVER, "StorageUnreachable")]),
        builders.csi_node("n1", reports=[StorageCondition(DRIVER, "StorageDegraded")]),
    ],
    "csi-n2": [builders.csi_node("n2", limits={DRIVER: limit}) for limit in (0, 1)],
    "driver": [
        builders.csi_driver(),
        replace(builders.csi_driver(), storage_capacity=True),
        builders.csi_driver(prevent_pod_scheduling_if_missing=True),
    ],
    "capacity": [
        _CAPACITY,
        replace(_CAPACITY, capacity=_TEN),
        replace(_CAPACITY, capacity=_TEN, maximum_volume_size=1),
        replace(_CAPACITY, capacity=2 * _TEN, node_topology=LabelSelector(((ZONE, "b"),))),
        replace(_CAPACITY, capacity=None),
    ],
    "elsewhere": [
        Namespace("other", "uid-other", 1, (("kubernetes.io/metadata.name", "other"),)),
        Namespace("other", "uid-other", 1, builders.pairs({"team": "web"})),
    ],
    "attached": [builders.attachment("pv-1", "n1"), builders.attachment("pv-1", "n2")],
}
"""By what is varied; most worlds have most of it."""


def _spread(key: str, domains: int = 1, taints: str = "Ignore") -> Constraints:
    return Constraints(
        spread=(SpreadConstraint(1, key, selector=WEBS, min_domains=domains, node_taints_policy=taints),)
    )


def _waiting() -> list[Pod]:
    first = Constraints(affinity=(PodTerm(ZONE, WEBS),))
    in_team = PodTerm(ZONE, WEBS, namespace_selector=LabelSelector(builders.pairs({"team": "web"})))
    in_all = PodTerm(ZONE, WEBS, namespace_selector=LabelSelector())
    return [
        builders.pod(requests={"cpu": "2"}),
        builders.pod(requests={"cpu": "1"}),
        builders.pod(tolerations=[Toleration("gpu", "Exists")], requests={"cpu": "1"}),
        builders.pod(node_selector={"disk": "ssd"}),
        builders.pod(node_affinity=builders.node_selector({ZONE: "b"})),
        builders.pod(constraints=Constraints(ports=(HostPort(80),))),
        builders.pod(constraints=Constraints(ports=(HostPort(80, ip="10.0.0.2"),)), node_selector={HOSTNAME: "n1"}),
        builders.pod(labels=WEB, constraints=first),
        builders.pod(labels=DB, constraints=first),
        builders.pod(labels=DB, constraints=Constraints(affinity=(in_all,))),
        builders.pod(labels=DB, constraints=Constraints(affinity=(in_team,))),
        builders.pod(labels=WEB, constraints=Constraints(anti_affinity=(in_team,))),
        builders.pod(labels=WEB, constraints=Constraints(anti_affinity=(PodTerm(ZONE, WEBS),))),
        builders.pod(labels=WEB, constraints=Constraints(anti_affinity=(PodTerm(HOSTNAME, DBS), in_all))),
        builders.pod(labels=WEB),
        builders.pod(labels=WEB, constraints=_spread(ZONE)),
        builders.pod(labels=WEB, constraints=_spread(ZONE, domains=2)),
        builders.pod(labels=WEB, constraints=_spread(HOSTNAME, taints="Honor")),
        builders.pod(labels=DB, node_selector={"disk": "ssd"}, constraints=_spread(ZONE)),
        builders.pod(claims=["data"]),
        builders.pod(claims=["data"], requests={"cpu": "2"}),
        builders.pod(claims=["data", "more"]),
        builders.pod(claims=["more"], node_selector={HOSTNAME: "n1"}),
        builders.pod(claims=["data"], tolerations=[Toleration("gpu", "Exists")], labels=WEB, constraints=first),
    ]


WAITING = _waiting()


class WatchedStore:
    """A store as filled by watches: each object in turn, in increasing versions."""

    def __init__(self, world: World) -> None:
        self.store = Store()
        self._shown: dict[str, Record] = {}
        self._versions = count(1)
        for slot, record in world.items():
            self.show(slot, record)

    def show(self, slot: str, record: Record | None) -> None:
        """Show an object in its present state, None if it does not exist any more."""
        before = self._shown.pop(slot, None)
        if before is not None and (record is None or record_key(record) != record_key(before)):
            self._collection(before).delete(record_key(before))
        if record is not None:
            self._shown[slot] = record
            self._collection(record).upsert(replace(record, resource_version=next(self._versions)))

    def view(self) -> ClusterView:
        snapshot = self.store.snapshot()
        namespaces = {name: namespace.labels for name, namespace in self.store.namespaces.items.items()}
        return view_of(View(snapshot, VolumeIndex.of(snapshot.volumes.values())), EPOCH, namespaces)

    def _collection(self, record: Record) -> Collection[Any]:
        store = self.store
        collections: Mapping[type[Record], Collection[Any]] = {
            Node: store.nodes,
            Pod: store.pods,
            Claim: store.claims,
            Volume: store.volumes,
            StorageClass: store.classes,
            CSINode: store.csi_nodes,
            CSIDriver: store.csi_drivers,
            CSIStorageCapacity: store.capacities,
            VolumeAttachment: store.attachments,
            DisruptionBudget: store.budgets,
            Namespace: store.namespaces,
        }
        return collections[type(record)]
