"""What autoscalers write about a pod, and what it means: Cluster Autoscaler, and Karpenter.

Sources: the FAQ of Cluster Autoscaler and its processors/status/eventing_scale_up_processor.go; events.go in
pkg/controllers/provisioning/scheduling of Karpenter.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kube.objects.model import Pod
from why.facts.details import EventRecord
from why.facts.facts import Facts

_CLUSTER_AUTOSCALER: Final = frozenset({"NotTriggerScaleUp", "TriggeredScaleUp"})
_FAILED: Final = "Failed to schedule pod, "
"""How Karpenter begins its FailedScheduling: kube-scheduler writes Events of that reason too."""

_NODE: Final = re.compile(r"\bnode/(?P<node>[^\s,]+)|Pod should schedule on (?P<alone>[^\s,:]+)")
_NODE_CLAIM: Final = re.compile(r"\bnodeclaim/(?P<name>[^\s,]+)")
_NODE_POOL: Final = re.compile(r"incompatible with (?:nodepool|provisioner) \\?\"(?P<name>[\w.-]+)\\?\"")


class Autoscaler(StrEnum):
    """Who reports."""

    CLUSTER_AUTOSCALER = "Cluster Autoscaler"
    KARPENTER = "Karpenter"


@dataclass(frozen=True, slots=True)
class AutoscalerReport:
    """The last report of an autoscaler about a pod.

    `adds` is whether it says that a node is there or coming. `node` and `node_claim` are those that Karpenter has
    nominated, `pool` the first NodePool that it rejects; empty if it names none.
    """

    by: Autoscaler
    event: EventRecord
    adds: bool
    node: str = ""
    node_claim: str = ""
    pool: str = ""


def report_about(facts: Facts, pod: Pod) -> AutoscalerReport | None:
    """Return the last report of an autoscaler about the pod, None if there is none."""
    reports = (_read(event) for event in facts.events_of("Pod", pod.key))
    return next((report for report in reports if report is not None), None)


def _read(event: EventRecord) -> AutoscalerReport | None:
    if event.reason in _CLUSTER_AUTOSCALER:
        return AutoscalerReport(Autoscaler.CLUSTER_AUTOSCALER, event, event.reason == "TriggeredScaleUp")
    if event.reason == "Nominated":
        node, node_claim = _NODE.search(event.note), _NODE_CLAIM.search(event.note)
        name = "" if node is None else node["node"] or node["alone"]
        return AutoscalerReport(
            Autoscaler.KARPENTER, event, True, name, "" if node_claim is None else node_claim["name"]
        )
    if event.reason == "FailedScheduling" and event.note.startswith(_FAILED):
        pool = _NODE_POOL.search(event.note)
        return AutoscalerReport(Autoscaler.KARPENTER, event, False, pool="" if pool is None else pool["name"])
    return None


_MEANINGS: Final = (
    (
        re.compile(r"max(?:imum)? (?:node group size|limit) reached|exceeds? limits?|limits? (?:exceeded|reached)"),
        "a node group or NodePool has reached its limit: raise it, or free nodes there",
    ),
    (
        re.compile(r"topology\.kubernetes\.io/zone DoesNotExist"),
        "what the pod demands leaves no zone: volumes in different zones, or a volume and a node selector that exclude "
        "each other",
    ),
    (
        re.compile(r"volume node affinity conflict|didn't match PersistentVolume's node affinity|NoVolumeZoneConflict"),
        "no group that it may enlarge makes nodes where the volume is. An empty group is judged by its template: that "
        "has to carry the labels of its zone, also the driver's own key",
    ),
    (
        re.compile(r"incompatible requirements, key [\w./-]*zone\b"),
        "no NodePool makes nodes in the zone that the pod, or its volume, needs: allow that zone in one",
    ),
    (
        re.compile(r"did not have enough free storage"),
        "it knows no free capacity of nodes that do not exist: node-local storage keeps it from adding one",
    ),
    (
        re.compile(r"didn't find available persistent volumes"),
        "a node that it would add has no volume for the pod's claims: static volumes do not come with a node",
    ),
    (
        re.compile(r"untolerated taint|did not tolerate"),
        "the nodes that it could add have taints that the pod does not tolerate",
    ),
    (
        re.compile(r"Insufficient |no instance type|didn't match (?:Pod's )?node (?:affinity|selector)"),
        "no node that it could add is large enough, or has the labels that the pod selects",
    ),
)
"""Why no node is added, the more specific text before the others."""


def meaning_of(report: AutoscalerReport) -> str:
    """Return what a report that no node is added amounts to."""
    return next(
        (meaning for pattern, meaning in _MEANINGS if pattern.search(report.event.note)),
        "it adds no node for this pod, for the reasons that it counts by node group",
    )
