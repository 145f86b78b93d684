"""Completes the finding about a pod that no node can run by what autoscalers do about it, and names contradictions.

Tried with Karpenter 1.14: it ignores the free volumes that an unbound claim could get, so it nominates a node in any
zone and launches nothing; and it passes over pods with `status.nominatedNodeName` and pods with scheduling gates
(IsProvisionable in pkg/utils/pod/scheduling.go).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from kube.objects.model import Claim, Node, Pod, Volume
from kube.plain_text import shell
from kube.rules.selectors import node_matches
from kube.rules.topology import within, zone_of
from why.causes.autoscalers.reports import Autoscaler, AutoscalerReport, meaning_of, report_about
from why.causes.finding import Finding, Step
from why.causes.objects import named, place_of, pod_object, with_default_class
from why.causes.reported import quoted
from why.facts.details import ConditionedRecord
from why.facts.facts import Facts, Source
from why.report.report import Evidence

_OF_KARPENTER: Final = "karpenter.sh/"
_MAX_SHOWN: Final = 4


def with_autoscalers(facts: Facts, pod: Pod, finding: Finding) -> Finding:
    """Return a problem of a pod without a node with what an autoscaler says, and why it does not help."""
    if pod.node_name or not finding.problem:
        return finding
    report = report_about(facts, pod)
    hidden = _hidden(facts, pod, report)
    if report is None and not hidden:
        return finding
    evidence = [*finding.evidence, *([quoted(facts, report.event)] if report is not None else []), *hidden]
    if report is None:
        return replace(finding, evidence=tuple(evidence))
    conflict = _conflict(facts, pod, report) if report.node else ""
    states = tuple(_states(facts, report))
    message = f"{finding.message} {conflict}" if conflict else finding.message
    step = _step(report, conflict=conflict, is_hidden=bool(hidden), states=states)
    next_steps = finding.next if step is None else (*finding.next, step)
    return replace(finding, message=message, evidence=(*evidence, *states), next=next_steps)


def _step(report: AutoscalerReport, *, conflict: str, is_hidden: bool, states: tuple[Evidence, ...]) -> Step | None:
    """Return what to do about the autoscaler, None while it adds a node and nothing contradicts that."""
    if conflict:
        note = (
            f"{report.by} counts on that node and adds no other: demand the volume's zone by a nodeSelector in the "
            "pod's template, or bind the claim to its volume first, which it follows"
        )
        return Step(shell("kubectl describe node {}", report.node), note)
    if is_hidden:
        return None
    if report.adds:
        unready = report.node_claim and states
        command = shell("kubectl describe nodeclaim {}", report.node_claim)
        return (
            Step(command, f"the node that {report.by} adds is not there: its conditions say why") if unready else None
        )
    note = f"{report.by}: {meaning_of(report)}"
    if report.by is Autoscaler.CLUSTER_AUTOSCALER:
        return Step("kubectl -n kube-system get configmap cluster-autoscaler-status -o yaml", note)
    if report.pool:
        return Step(shell("kubectl describe nodepool {}", report.pool), note)
    return Step("kubectl get nodepools -o yaml", note)


def _conflict(facts: Facts, pod: Pod, report: AutoscalerReport) -> str:
    """Return that the node that was nominated has no access to a volume that the pod needs, empty if it has."""
    node = facts.snapshot.nodes.get(report.node) if facts.has(Source.NODES) else None
    if node is None:
        return ""
    for claim in _claims_of(facts, pod):
        volumes = _out_of_reach(facts, claim, node)
        if volumes:
            where = f"{report.by} nominated node {node.name} in {_where(node)} for the pod"
            return f"{where}; {_elsewhere(claim, volumes)}."
    return ""


def _out_of_reach(facts: Facts, claim: Claim, node: Node) -> list[Volume]:
    """Return the volume of a claim, or some of those that it can get, if the node has access to none of them."""
    if not (facts.has(Source.VOLUMES) and facts.has(Source.CLASSES)):
        return []
    labels = dict(node.labels)
    if claim.volume_name:
        volume = facts.snapshot.volumes.get(claim.volume_name)
        return [] if volume is None or node_matches(volume.node_affinity, labels) else [volume]
    wanted, index = with_default_class(facts, claim), facts.derived.view.index
    return [] if index.smallest(wanted, labels) is not None else list(islice(index.candidates(wanted), _MAX_SHOWN))


def _elsewhere(claim: Claim, volumes: Sequence[Volume]) -> str:
    places = within(named(dict.fromkeys(place_of(volume) for volume in volumes)))
    if claim.volume_name:
        return f"its volume {volumes[0].name} is {places}"
    if len(volumes) == 1:
        return f"the only volume for its claim {claim.name}, {volumes[0].name}, is {places}"
    return f"the volumes for its claim {claim.name} are {places}"


def _where(node: Node) -> str:
    zone = zone_of(node.labels)
    return f"zone {zone}" if zone else "no zone"


def _claims_of(facts: Facts, pod: Pod) -> Iterator[Claim]:
    if facts.has(Source.CLAIMS):
        yield from (facts.snapshot.claims[key] for key in pod.claim_keys if key in facts.snapshot.claims)


def _hidden(facts: Facts, pod: Pod, report: AutoscalerReport | None) -> tuple[Evidence, ...]:
    """Return that the pod's nominated node hides it from the autoscaler, if there is one."""
    if not pod.nominated_node or not (report is not None or _has_karpenter(facts)):
        return ()
    place = pod_object(pod, "status.nominatedNodeName")
    words = f"{pod.nominated_node}: while it is set, autoscalers pass over the pod and add no node for it"
    return (Evidence(place, "none, for an autoscaler to see the pod", words),)


def _has_karpenter(facts: Facts) -> bool:
    if not facts.has(Source.NODES):
        return False
    return any(key.startswith(_OF_KARPENTER) for node in facts.snapshot.nodes.values() for key, _ in node.labels)


def _states(facts: Facts, report: AutoscalerReport) -> Iterator[Evidence]:
    """Yield what Karpenter's own objects say: those that it names, and NodePools that are not ready."""
    if report.by is not Autoscaler.KARPENTER:
        return
    if report.node_claim and facts.has(Source.NODE_CLAIMS):
        made = facts.node_claims.get(report.node_claim)
        yield from _unready("nodeclaim", made)
    if not report.adds and facts.has(Source.NODE_POOLS):
        unready = [pool for _, pool in sorted(facts.node_pools.items()) if tuple(_unready("nodepool", pool))]
        for pool in unready[:_MAX_SHOWN]:
            yield from _unready("nodepool", pool)
        if not facts.node_pools:
            yield Evidence("nodepools", "a NodePool", "none")


def _unready(kind: str, record: ConditionedRecord | None) -> Iterator[Evidence]:
    for condition in () if record is None else record.conditions:
        if condition.status != "True" and condition.type in {"Ready", "Launched", "Registered", "NodeClassReady"}:
            words = f'{condition.status}: "{" ".join((condition.message or condition.reason).split())}"'
            yield Evidence(f"{kind}/{record.name if record else ''} condition {condition.type}", "True", words)
            return
