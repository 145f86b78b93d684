"""What the tests of holds share: a StatefulSet in three zones, and passes over it."""

from collections.abc import Iterable
from datetime import datetime

from binder.holds.ending import HoldWorld
from binder.holds.hold_pass import HoldPlan, plan_holds
from binder.holds.limits import HoldLimits
from binder.model.view import View
from binder.reservation.contract import Annotations, Holder
from binder.reservation.pins import ReplicaHold, for_hold
from kube.objects.model import Claim, Namespace, Node, Pod, Volume
from kube.objects.stateful_set import ResourceQuota, StatefulSet
from tests.binder.views import view
from tests.builders import EPOCH, claim, node, pod, storage_class, volume

OURS = Annotations()
ZONES = ("a", "b", "c")
PREBIND = storage_class("fast", annotations={OURS.mode: "prebind"})
HERE = {"default": Namespace("default", "uid-ns", 1)}
ALL = HoldLimits(max_share=1.0, max_per_namespace=1000)


def stateful_set(
    name: str = "db",
    *,
    hold: str | None = "6",
    replicas: int = 3,
    start: int = 0,
    templates: Iterable[Claim] = (),
    template: Pod | None = None,
    uid: str = "uid-set",
    deleting: bool = False,
) -> StatefulSet:
    """A set of three replicas that wants six; its only template is `data`, 10Gi of class `fast`."""
    return StatefulSet(
        namespace="default",
        name=name,
        uid=uid,
        resource_version=1,
        replicas=replicas,
        start=start,
        templates=tuple(templates) or (claim("data"),),
        pod=template or pod(name),
        deleting=deleting,
        annotations=() if hold is None else ((OURS.hold_replicas, hold),),
    )


def nodes(zones: Iterable[str] = ZONES) -> list[Node]:
    """One node in each zone, with room for many."""
    return [node(f"node-{zone}", zone=zone, allocatable={"pods": "1000"}) for zone in zones]


def running(owner: StatefulSet, ordinal: int, zone: str) -> list[Claim | Pod | Volume]:
    """A replica that runs in a zone, with its claims bound."""
    records: list[Claim | Pod | Volume] = [
        pod(
            f"{owner.name}-{ordinal}",
            claims=[each.name for each in owner.claims_of(ordinal)],
            node=f"node-{zone}",
            phase="Running",
        )
    ]
    for each in owner.claims_of(ordinal):
        records += [
            claim(each.name, volume_name=f"pv-{each.name}", phase="Bound", annotations=BOUND),
            volume(f"pv-{each.name}", zone=zone, claim=f"default/{each.name}", phase="Bound"),
        ]
    return records


BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def held(name: str, for_claim: str, zone: str = "a", *, set_uid: str = "uid-set", size: str = "10Gi") -> Volume:
    """A volume that is held for a claim."""
    marks = for_hold(ReplicaHold(f"default/{for_claim}", set_uid, Holder("me", 1)), OURS)
    return volume(name, zone=zone, size=size, claim=f"default/{for_claim}", annotations=marks)


def passed(
    records: Iterable[Claim | Pod | Volume | Node],
    *sets: StatefulSet,
    limits: HoldLimits = ALL,
    quotas: Iterable[ResourceQuota] = (),
    namespaces: dict[str, Namespace] | None = None,
    missing_since: dict[str, datetime] | None = None,
    seen: View | None = None,
    now: datetime = EPOCH,
) -> HoldPlan:
    """One pass over a cluster of these objects, with class `fast` in mode prebind and a node in each zone."""
    world = HoldWorld(
        {owner.key: owner for owner in sets},
        HERE if namespaces is None else namespaces,
        tuple(quotas),
        missing_since or {},
    )
    return plan_holds(seen or view(PREBIND, *nodes(), *records), world, limits, now)


def chosen(plan: HoldPlan) -> dict[str, str]:
    """The volume of each claim to come."""
    return {each.claim.name: each.volume.name for held in plan.holds for each in held.placements}
