"""Why a pod fits nowhere, in kube-scheduler's words, and always the plain rules' own verdict."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binder.matching.rejection import Reason, Rejection
from binder.reservation.contract import Annotations, Holder, VolumeReservation
from kube.objects import model
from kube.objects.constraints import DO_NOT_SCHEDULE, Constraints, HostPort, SpreadConstraint
from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import Taint
from scheduler.cycle.cycle import Judgement, Unschedulable, decide, judge
from scheduler.cycle.diagnosis import Diagnosis, diagnose
from scheduler.framework.plugin import PreFilter
from scheduler.framework.queueing_hint import any_change_of
from scheduler.plugins.registry import default_profile
from scheduler.plugins.resource_fit import lacking
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.claim_texts import whole_text
from scheduler.volumes.volumes import PodInfo
from tests import builders
from tests.scheduler import clusters
from tests.scheduler.plugin_results import view

PROFILE = default_profile("ours")
WEB = {"app": "web"}
NOT_READY = Taint("node.kubernetes.io/not-ready", "NoSchedule")
LACKING = Reason.INSUFFICIENT_RESOURCES
LATER = builders.EPOCH.replace(year=2027)


def diagnosed(pod: model.Pod, *records: model.Record) -> Diagnosis:
    decision = decide(pod, view(*records), PROFILE)
    assert isinstance(decision, Unschedulable)
    return diagnose(decision)


def rejecting_plugins(diagnosis: Diagnosis) -> set[str]:
    return {plugin.name for plugin in diagnosis.plugins}


def first_rejecting(judgement: Judgement, node: NodeInfo) -> str | None:
    """Return the plugin that rejects the node first, None if it fits or no plugin was run."""
    if judgement.left_out >> node.number & 1:
        return judgement.confined_by[0].name
    return next((plugin.name for plugin, rule in judgement.rules if rule.why(node) is not None), None)


def nodes(count: int, **how: object) -> list[model.Record]:
    return [builders.node(f"{how.get('zone', 'a')}{number}", **how) for number in range(count)]  # type: ignore[arg-type]


def named(*names: str) -> NodeSelector:
    """One term that requires each of these names."""
    fields = tuple(Requirement("metadata.name", "In", (name,)) for name in names)
    return NodeSelector((NodeSelectorTerm(match_fields=fields),))


def held_for_other() -> dict[str, str]:
    return Annotations().for_volume(
        VolumeReservation("default/other", "uid-default-other", builders.EPOCH, LATER, Holder("us", 1))
    )


SPREAD = Constraints(spread=(SpreadConstraint(1, builders.ZONE, DO_NOT_SCHEDULE, LabelSelector((("app", "web"),))),))
PORT = Constraints(ports=(HostPort(80, "TCP", "0.0.0.0"),))
CLASS = builders.storage_class()


@pytest.mark.parametrize(
    ("pod", "records", "text", "rejected_by"),
    [
        pytest.param(builders.pod(), [], "no nodes available to schedule pods", set(), id="no-nodes"),
        pytest.param(
            builders.pod(claims=["data"]), [], "no nodes available to schedule pods", set(), id="no-nodes-nor-claim"
        ),
        pytest.param(
            builders.pod(claims=[model.PodClaim("web-scratch", ephemeral=True)]),
            nodes(3),
            "0/3 nodes are available: waiting for ephemeral volume controller to create the persistentvolumeclaim "
            '"web-scratch".',
            {"VolumeBinding"},
            id="ephemeral-claim-to-come",
        ),
        pytest.param(
            builders.pod(claims=[model.PodClaim("web-scratch", ephemeral=True)]),
            [CLASS, builders.claim("web-scratch"), *nodes(1)],
            "0/1 nodes are available: PVC default/web-scratch was not created for pod default/web (pod is not owner).",
            {"VolumeBinding"},
            id="ephemeral-claim-of-another",
        ),
        # Facts: TestVolumeBinding of volumebinding/volume_binding_test.go, "bound and unbound unsatisfied".
        pytest.param(
            builders.pod(claims=["bound", "data"]),
            [
                CLASS,
                builders.claim("bound", volume_name="pv-b", annotations={model.BIND_COMPLETED: "yes"}),
                builders.volume("pv-b", zone="b", claim="default/bound", phase="Bound"),
                builders.claim("data"),
                *nodes(2),
                builders.node("b0", zone="b"),
            ],
            "0/3 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity, 3 node(s) didn't find "
            "available persistent volumes to bind.",
            {"VolumeBinding"},
            id="a-bound-volume-elsewhere-and-none-to-bind",
        ),
        pytest.param(
            builders.pod(claims=["bound", "data"]),
            [
                builders.claim("bound", volume_name="pv-b", annotations={model.BIND_COMPLETED: "yes"}),
                builders.volume("pv-b", zone="b", claim="default/bound", phase="Bound"),
                builders.claim("data", storage_class="made"),
                builders.storage_class("made", provisioner="disk.csi.example"),
                model.CSIDriver("disk.csi.example", "uid", 1, storage_capacity=True),
                CLASS,
                *nodes(1),
            ],
            "0/1 nodes are available: 1 node(s) did not have enough free storage, 1 node(s) didn't match "
            "PersistentVolume's node affinity.",
            {"VolumeBinding"},
            id="a-bound-volume-elsewhere-and-no-capacity",
        ),
        # Facts: TestCSILimits of nodevolumelimits/csi_test.go, "... CSI driver is not installed on the node".
        pytest.param(
            builders.pod(claims=["data"]),
            [
                CLASS,
                builders.claim("data", volume_name="pv-1", annotations={model.BIND_COMPLETED: "yes"}),
                builders.volume("pv-1", claim="default/data", phase="Bound"),
                builders.csi_driver(prevent_pod_scheduling_if_missing=True),
                *nodes(2),
            ],
            "0/2 nodes are available: 2 disk.csi.example CSI driver is not installed on the node.",
            {"NodeVolumeLimits"},
            id="driver-not-installed",
        ),
        pytest.param(
            builders.pod(claims=["data"]),
            [CLASS, builders.claim("data", volume_name="pv-9", phase="Lost"), *nodes(1)],
            '0/1 nodes are available: persistentvolumeclaim "data" bound to non-existent persistentvolume "pv-9".',
            {"VolumeBinding"},
            id="lost-claim",
        ),
        pytest.param(
            builders.pod(claims=["data"]),
            [CLASS, builders.claim("data", volume_name="pv-9", annotations={model.BIND_COMPLETED: "yes"}), *nodes(1)],
            '0/1 nodes are available: persistentvolume "pv-9" not found.',
            {"VolumeBinding"},
            id="volume-that-is-gone",
        ),
        pytest.param(
            builders.pod(requests={"cpu": "9"}),
            nodes(2) + nodes(3, zone="b", taints=[Taint("dedicated", "NoSchedule", "db")]),
            "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).",
            {"NodeResourcesFit", "TaintToleration"},
            id="cpu-and-taint",
        ),
        pytest.param(
            builders.pod(requests={"cpu": "9", "memory": "64Gi", "example.com/gpu": "1"}),
            nodes(1),
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient example.com/gpu, 1 Insufficient memory. No "
            "node has example.com/gpu: if a DeviceClass provides it, leave the pod to kube-scheduler.",
            {"NodeResourcesFit"},
            id="everything-that-is-lacking",
        ),
        pytest.param(
            builders.pod(requests={"example.com/gpu": "2"}),
            [builders.node("n1"), builders.node("n2", allocatable={"cpu": "1", "pods": "9", "example.com/gpu": "1"})],
            "0/2 nodes are available: 2 Insufficient example.com/gpu.",
            {"NodeResourcesFit"},
            id="a-resource-that-some-node-has-too-little-of",
        ),
        pytest.param(
            builders.pod(),
            [builders.node(allocatable={"pods": "0"})],
            "0/1 nodes are available: 1 Too many pods.",
            {"NodeResourcesFit"},
            id="pods",
        ),
        pytest.param(
            builders.pod(node_selector={"disk": "ssd"}),
            nodes(10) + nodes(1, zone="b", unschedulable=True) + nodes(2, zone="c", taints=[NOT_READY]),
            "0/13 nodes are available: 1 node(s) were unschedulable, "
            "10 node(s) didn't match Pod's node affinity/selector, 2 node(s) had untolerated taint(s).",
            {"NodeAffinity", "TaintToleration"},
            id="sorted-as-text",
        ),
        pytest.param(
            builders.pod(requests={"cpu": "9"}, node_affinity=named("a1"), node_selector={"disk": "ssd"}),
            nodes(2) + nodes(2, zone="b", unschedulable=True),
            "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
            "3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            {"NodeAffinity"},
            id="node-by-name",
        ),
        pytest.param(
            builders.pod(node_affinity=named("elsewhere")),
            nodes(2),
            "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            {"NodeAffinity"},
            id="node-that-is-gone",
        ),
        pytest.param(
            builders.pod(node_affinity=named("a0", "a1")),
            nodes(2),
            "0/2 nodes are available: pod affinity terms conflict.",
            {"NodeAffinity"},
            id="node-names-that-exclude-each-other",
        ),
        pytest.param(
            builders.pod("new", constraints=PORT),
            [*nodes(1), builders.pod("old", node="a0", constraints=PORT)],
            "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
            {"NodePorts"},
            id="port",
        ),
        pytest.param(
            builders.pod("new", labels=WEB, constraints=SPREAD),
            [
                *nodes(1),
                *nodes(1, zone="b", unschedulable=True),
                builders.node("c0", zone=None),
                builders.pod("old", node="a0", labels=WEB),
            ],
            "0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints, "
            "1 node(s) didn't match pod topology spread constraints (missing required label), "
            "1 node(s) were unschedulable.",
            {"PodTopologySpread", "TaintToleration"},
            id="spread",
        ),
        pytest.param(
            builders.pod(claims=["data"]),
            [*nodes(1), *nodes(1, zone="b"), CLASS, builders.claim(), builders.volume(zone="c")],
            "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.",
            {"VolumeBinding"},
            id="no-volume",
        ),
        pytest.param(
            builders.pod(claims=["data"]),
            [
                *nodes(1),
                *nodes(1, zone="b"),
                CLASS,
                builders.claim(),
                builders.volume("pv-a", zone="a", annotations=held_for_other()),
                builders.volume("pv-b", zone="b", annotations={Annotations().health: "Inaccessible"}),
            ],
            "0/2 nodes are available: 1 node(s) had only volumes known to be unhealthy, "
            "1 node(s) had only volumes reserved for other claims.",
            {"ReservedVolume", "VolumeHealth"},
            id="our-own-reasons",
        ),
        pytest.param(
            builders.pod(claims=["data"]),
            nodes(3),
            '0/3 nodes are available: persistentvolumeclaim "data" not found.',
            {"VolumeBinding"},
            id="pod-as-a-whole",
        ),
    ],
)
def test_text(pod: model.Pod, records: list[model.Record], text: str, rejected_by: set[str]) -> None:
    diagnosis = diagnosed(pod, *records)
    assert diagnosis.text() == text
    assert rejecting_plugins(diagnosis) == rejected_by


def test_what_preemption_says_comes_last() -> None:
    diagnosis = diagnosed(builders.pod(requests={"cpu": "9"}), *nodes(1))
    message = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    assert diagnosis.text(message) == f"0/1 nodes are available: 1 Insufficient cpu. {message}"


def test_the_commonest_reason_is_counted() -> None:
    records = nodes(2, unschedulable=True) + nodes(3, zone="b")
    assert diagnosed(builders.pod(requests={"cpu": "9"}), *records).reason is Reason.INSUFFICIENT_RESOURCES


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (Reason.CLAIM_NOT_FOUND, 'persistentvolumeclaim "data" not found'),
        (Reason.CLAIM_DELETING, 'persistentvolumeclaim "data" is being deleted'),
        (Reason.IMMEDIATE_CLAIM, "pod has unbound immediate PersistentVolumeClaims"),
        (Reason.CLAIM_LOST, "shop/data: expected this, found that"),
    ],
    ids=str,
)
def test_reasons_against_the_pod(reason: Reason, text: str) -> None:
    assert whole_text(Rejection(reason, "shop/data", "this", "that")) == text


@given(clusters.clusters(), st.data())
def test_every_node_is_counted_with_the_first_filter_that_rejects_it(
    records: list[model.Record], data: st.DataObject
) -> None:
    pod, seen = data.draw(clusters.pods("new")), view(*records)
    judgement = judge(pod, seen, PROFILE)
    rejections = {state.name: rejection for state in seen.nodes if (rejection := judgement.why(state)) is not None}
    diagnosis = diagnose(Unschedulable(judgement, seen))
    first = {name for state in seen.nodes if (name := first_rejecting(judgement, state)) is not None}
    assert rejecting_plugins(diagnosis) == first
    short = [seen.nodes[seen.numbers[name]] for name, rejection in rejections.items() if rejection.reason is LACKING]
    expected = Counter(text for state in short for text in lacking(pod)(state))
    assert {text: count for text, count in diagnosis.counts.items() if not text.startswith("node(s)")} == expected
    counts = sorted(count for text, count in diagnosis.counts.items() if text.startswith("node(s)"))
    reasons = Counter(
        (rejection.reason, judgement.left_out >> seen.numbers[name] & 1)
        for name, rejection in rejections.items()
        if rejection.reason is not LACKING
    )
    assert counts == sorted(reasons.values())


class Chosen(PreFilter):
    """Leaves the first node."""

    name = "Chosen"
    queueing_hint = any_change_of(model.Node)

    def confine(self, info: PodInfo, cluster: ClusterView) -> int:
        return 1


def test_nodes_that_a_plugin_leaves_out_are_counted_and_its_hint_decides_what_may_help() -> None:
    profile = replace(PROFILE, pre_filters=(*PROFILE.pre_filters, Chosen()))
    decision = decide(builders.pod(requests={"cpu": "9"}), view(*nodes(3)), profile)
    assert isinstance(decision, Unschedulable)
    diagnosis = diagnose(decision)
    assert diagnosis.text() == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [Chosen]."
    )
    assert Chosen.queueing_hint in diagnosis.hints
    messages = [str(rejection) for rejection in decision.rejections()]
    assert len(messages) == 3
    assert messages[1] == "a1: RejectedByPlugin (wanted a node that Chosen leaves, found another node)"
