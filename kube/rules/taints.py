"""Taints and tolerations, evaluated as by the scheduler's TaintToleration and NodeUnschedulable plugins.

The comparing operators `Gt` and `Lt` of tolerations (KEP-5471) are alpha and off by default: they tolerate nothing.
"""

from collections.abc import Iterable
from typing import Final

from kube.objects.model import Taint, Toleration

UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""The taint that `spec.unschedulable` stands for, whether or not the node controller has set it yet."""

REJECTING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint. An empty key or effect covers all of them."""
    if toleration.effect not in {"", taint.effect} or toleration.key not in {"", taint.key}:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in {"", "Equal"} and toleration.value == taint.value


def untolerated_taint(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that keeps a pod with these tolerations off a node; None if none does.

    PreferNoSchedule is a preference and never does.
    """
    accepted = tuple(tolerations)
    for taint in taints:
        if taint.effect in REJECTING_EFFECTS and not any(tolerates(toleration, taint) for toleration in accepted):
            return taint
    return None


def tolerates_unschedulable(tolerations: Iterable[Toleration]) -> bool:
    """Whether a pod may go to a node that is cordoned."""
    return untolerated_taint((UNSCHEDULABLE,), tolerations) is None
