"""A StatefulSet `db` in namespace default whose third replica sits on a local disk of node n2."""

from collections.abc import Iterable
from typing import cast

from msgspec import Struct

from binder.health.published_sweeps import PublishedSweep
from binder.replacement.situation import Replicas, Situation
from binder.replacement.turn import Turn
from binder.reservation.contract import Annotations
from kube.objects.model import BIND_COMPLETED, Claim, Pod, Record, Volume
from kube.store.store import snapshot_of
from tests.builders import EPOCH, claim, node, pod, reference, storage_class, volume

OURS = Annotations()
NAMESPACE_UID = "uid-of-namespace"
TEMPLATE = claim("data", uid="")


def bound_claim(name: str = "data-db-2", volume_name: str = "pv-old", uid: str = "uid-old") -> Claim:
    return claim(
        name, uid=uid, resource_version=7, volume_name=volume_name, phase="Bound", annotations={BIND_COMPLETED: "yes"}
    )


def old_volume(**others: object) -> Volume:
    values: dict[str, object] = {"node": "n2", "claim": reference("default/data-db-2", "uid-old"), "phase": "Bound"}
    return volume("pv-old", **(values | others))  # type: ignore[arg-type]


def replica(node_name: str = "", **others: object) -> Pod:
    return pod("db-2", claims=["data-db-2"], node=node_name, resource_version=9, **others)  # type: ignore[arg-type]


def replicas(turn: Turn | None = None, *, ordered: bool = True, count: int = 3) -> Replicas:
    return Replicas("default", "db", "uid-set", 5, count=count, ordered=ordered, templates=(TEMPLATE,), turn=turn)


def situation(
    *records: Struct,
    pod_name: str = "db-2",
    of: Replicas | None = None,
    ready: Iterable[str] = (),
    ready_nodes: Iterable[str] = ("n1", "n2", "n3"),
    sweeps: Iterable[PublishedSweep] = (),
) -> Situation:
    """The records are the whole cluster, the class aside."""
    owner = replicas() if of is None else of
    ordinal = owner.ordinal_of(pod_name)
    known = next((each for each in records if isinstance(each, Pod) and each.name == pod_name), None)
    template = known or pod(pod_name, claims=[f"data-db-{ordinal}"])
    return Situation(
        snapshot=snapshot_of([storage_class(), *cast("tuple[Record, ...]", records)]),
        now=EPOCH,
        namespace="default",
        namespace_uid=NAMESPACE_UID,
        pod_name=pod_name,
        template=template,
        next_claims=(claim(f"data-db-{ordinal}", uid=""),),
        replicas=owner,
        ready_pods=frozenset(ready),
        ready_nodes=frozenset(ready_nodes),
        sweeps=tuple(sweeps),
        annotations=OURS,
    )


NODES = (node("n1"), node("n3"))
"""The nodes that are left when n2 is gone."""
