"""Whether a node works, by its condition Ready, its taints and the Lease that its kubelet renews; and when it may count
as switched off.

A node that does not respond may still run and write: to declare it switched off lets another node write to the same
volumes. So `out-of-service` is never a command of ours. It is named in the advice alone, if Ready is Unknown and
the kubelet has stopped renewing its Lease, with what to check first (KEP-2268).
"""

from enum import StrEnum
from typing import Final

from kube.objects.model import Node
from kube.plain_text import shell
from kube.rules.duration import age_text
from why.causes.leases import has_lapsed
from why.causes.objects import NOT_READY, UNREACHABLE
from why.facts.details import LeaseDetails
from why.facts.facts import Facts, Source
from why.report.report import Evidence

_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
OUT_OF_SERVICE: Final = f"{_OUT_OF_SERVICE}=nodeshutdown:NoExecute"
"""The taint by which an administrator confirms that a node is switched off (podgc/gc_controller.go)."""

_LEASES: Final = "kube-node-lease"
"""The namespace of the kubelets' Leases, renewed every ten seconds."""


class NodeState(StrEnum):
    """What is known of a node. NOT_READY: its kubelet runs and says so. SILENT: it does not report any more."""

    READY = "ready"
    NOT_READY = "is not ready"
    SILENT = "does not respond"


def state_of(facts: Facts, node: Node) -> NodeState:
    """Return whether a node works: by its condition, or by its taints if it has none or these are ahead of it."""
    details = facts.nodes.get(node.name)
    ready = details.ready.status if details is not None and details.ready is not None else ""
    by_condition = {"False": NodeState.NOT_READY, "Unknown": NodeState.SILENT}.get(ready)
    if by_condition is not None:
        return by_condition
    taint = next((taint.key for taint in node.taints if taint.key in NOT_READY), "")
    if taint == UNREACHABLE:
        return NodeState.NOT_READY if ready else NodeState.SILENT
    return NodeState.NOT_READY if taint else NodeState.READY


def shown(facts: Facts, node: Node) -> tuple[Evidence, ...]:
    """Return what shows that a node is not ready, and when its kubelet last renewed its Lease."""
    details = facts.nodes.get(node.name)
    ready = None if details is None else details.ready
    taints = [taint.key for taint in node.taints if taint.key in NOT_READY]
    if ready is not None and ready.status in {"False", "Unknown"}:
        since = f" for {age_text(facts.now - ready.since)}" if ready.since is not None else ""
        condition = Evidence(f"node/{node.name} condition Ready", "True", f"{ready.status}{since}")
    else:
        condition = Evidence(f"node/{node.name} spec.taints", "a node that is ready", ", ".join(taints))
    lease = _lease_of(facts, node.name)
    if lease is None or lease.renewed is None:
        return (condition,)
    age = age_text(facts.now - lease.renewed)
    return (condition, Evidence(f"lease/{_LEASES}/{node.name}", "renewed every 10s", f"last renewed {age} ago"))


def power_advice(facts: Facts, node: Node) -> str:
    """Return what may be done about a node that is not ready, and what must not: whether it may be switched off."""
    taint = next((taint for taint in node.taints if taint.key == _OUT_OF_SERVICE), None)
    if taint is not None:
        return "it is tainted out of service already: kube-controller-manager deletes its pods and detaches its volumes"
    keep = "do not taint it out of service: its pods may still write"
    if state_of(facts, node) is not NodeState.SILENT:
        return f"its kubelet runs, and its conditions tell what is wrong: {keep}"
    lease = _lease_of(facts, node.name)
    if lease is None or lease.renewed is None:
        get_lease = shell("kubectl -n {} get lease {} -o yaml", _LEASES, node.name)
        return f"whether it still runs is not known: `{get_lease}` has a renewTime of a few seconds ago if it does"
    if not has_lapsed(facts, lease.renewed):
        return f"its kubelet renewed its Lease {age_text(facts.now - lease.renewed)} ago, so it runs: {keep}"
    declare = shell("kubectl taint node {} {}", node.name, OUT_OF_SERVICE)
    return (
        "before its pods are moved, check in the cloud's console or at the machine that it is switched off: a node "
        "that is only cut off still writes, and two writers destroy the file system. Only if it is off, "
        f"`{declare}` deletes its pods at once and detaches its volumes; lost is what they have not written. Remove "
        "the taint before the node is used again"
    )


def _lease_of(facts: Facts, node: str) -> LeaseDetails | None:
    return facts.leases.get(f"{_LEASES}/{node}") if facts.has(Source.LEASES) else None
