"""A filter that only its class knows: one file is enough to add it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Namespace, Pod
from scheduler.cycle.cycle import Unschedulable, decide
from scheduler.cycle.diagnosis import diagnose
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.framework.plugin import Eviction, Filter, NodeRule
from scheduler.framework.queueing_hint import QueueingHint
from scheduler.preemption.preemption import Preemption
from scheduler.queue.hints import may_help
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volumes import PodInfo
from tests import builders
from tests.scheduler.plugin_results import view
from tests.scheduler.preemptions import PROFILE, preempt


def quiet_came(_: Pod, change: ClusterEvent, __: Wanted | None) -> bool:
    return change.new is not None


class Quiet(Filter):
    """A node with a noisy pod is no place for others."""

    name = "Quiet"
    messages: ClassVar[Mapping[Reason, str]] = {Reason.REJECTED_BY_PLUGIN: "were noisy"}
    eviction = Eviction.LOCAL
    queueing_hint = QueueingHint(frozenset({Namespace}), quiet_came)

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule:
        def why(state: NodeInfo) -> Rejection | None:
            noisy = any(("noisy", "") in pod.labels for pod in state.pods)
            return Rejection(Reason.REJECTED_BY_PLUGIN, state.name, "quiet", "noise") if noisy else None

        return NodeRule(why)


WITH_QUIET = replace(PROFILE, filters=(*PROFILE.filters, Quiet()))
NODES = [builders.node(name) for name in ("n1", "n2")]
NOISE = [builders.pod(f"noise-{name}", node=name, labels={"noisy": ""}, priority=1) for name in ("n1", "n2")]
NEW = builders.pod("new", priority=5)


def test_its_message_names_the_reason_no_node_fits() -> None:
    decision = decide(NEW, view(*NODES, *NOISE), WITH_QUIET)
    assert isinstance(decision, Unschedulable)
    assert diagnose(decision).text() == "0/2 nodes are available: 2 node(s) were noisy."
    assert {plugin.name for plugin in diagnose(decision).plugins} == {"Quiet"}


def test_without_a_message_its_name_and_reason_are_reported() -> None:
    class Unspoken(Quiet):
        name = "Unspoken"
        messages: ClassVar[Mapping[Reason, str]] = {}

    decision = decide(NEW, view(*NODES, *NOISE), replace(PROFILE, filters=(Unspoken(),)))
    assert isinstance(decision, Unschedulable)
    assert diagnose(decision).counts == {"node(s) were rejected by Unspoken: RejectedByPlugin": 2}


def test_its_hint_wakes_the_pod_and_nothing_else_does() -> None:
    decision = decide(NEW, view(*NODES, *NOISE), WITH_QUIET)
    assert isinstance(decision, Unschedulable)
    hints, namespace = diagnose(decision).hints, Namespace("default", "uid", 1, ())
    assert may_help(NEW, hints, ClusterEvent(None, namespace))
    assert not may_help(NEW, hints, ClusterEvent(namespace, None))
    assert not may_help(NEW, hints, ClusterEvent(NOISE[0], None))


def test_preemption_makes_room_for_it() -> None:
    result = preempt(NEW, view(*NODES, *NOISE), profile=WITH_QUIET)
    assert isinstance(result, Preemption)
    assert [pod.name for pod in result.victims] == [f"noise-{result.node}"]
