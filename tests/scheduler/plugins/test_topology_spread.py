"""Cases one by one, and a slow count over all pods that must come to the same."""

import msgspec
import pytest
from hypothesis import given, settings

from binder.matching.rejection import Reason
from kube.objects import model
from kube.objects.constraints import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY, Constraints, SpreadConstraint
from kube.objects.labels import LabelSelector
from kube.objects.model import Taint
from kube.rules.selectors import matches_labels, pod_node_affinity_matches
from kube.rules.taints import untolerated_taint
from kube.store.node_view import effective_taints
from scheduler.plugins.topology_spread import PodTopologySpread
from scheduler.volumes.volumes import pod_info
from tests import builders
from tests.scheduler import clusters
from tests.scheduler.plugin_results import allowed, reasons, view

WEB = LabelSelector((("app", "web"),))
NODES = [builders.node("a1", zone="a"), builders.node("b1", zone="b"), builders.node("x1", zone=None)]
TAINTED = builders.node("c1", zone="c", taints=[Taint("gpu", "NoSchedule")])


def spread(**more: object) -> SpreadConstraint:
    return msgspec.structs.replace(SpreadConstraint(1, builders.ZONE, selector=WEB), **more)


def webs(**count: int) -> list[model.Pod]:
    return [
        builders.pod(f"{node}-{number}", node=node, labels={"app": "web", "hash": "old"})
        for node, many in count.items()
        for number in range(many)
    ]


@pytest.mark.parametrize(
    ("constraint", "there", "allowed_names"),
    [
        pytest.param(spread(), [], {"a1", "b1"}, id="empty-cluster"),
        pytest.param(spread(), webs(a1=1), {"b1"}, id="one-ahead"),
        pytest.param(spread(max_skew=2), webs(a1=1), {"a1", "b1"}, id="skew-of-two"),
        pytest.param(spread(min_domains=3), webs(a1=1, b1=1), set(), id="fewer-domains-than-asked-for"),
        pytest.param(spread(when_unsatisfiable=SCHEDULE_ANYWAY), webs(a1=5), {"a1", "b1", "x1"}, id="only-a-wish"),
        pytest.param(spread(match_label_keys=("hash",)), webs(a1=1), {"a1", "b1"}, id="another-revision"),
        pytest.param(spread(selector=None), webs(a1=5), {"a1", "b1"}, id="no-selector"),
        pytest.param(spread(selector=LabelSelector()), webs(a1=5), {"a1", "b1"}, id="empty-selector-counts-none"),
        pytest.param(spread(), [*webs(a1=1), TAINTED], {"b1", "c1"}, id="taints-do-not-matter-by-default"),
        pytest.param(
            spread(node_taints_policy="Honor"), [*webs(a1=1, b1=1), TAINTED], {"a1", "b1", "c1"}, id="taints-honored"
        ),
        pytest.param(spread(), [*webs(a1=1, b1=1), TAINTED], {"c1"}, id="taints-ignored"),
    ],
)
def test_a_case(constraint: SpreadConstraint, there: list[model.Pod | model.Node], allowed_names: set[str]) -> None:
    pod = builders.pod("new", labels={"app": "web", "hash": "new"}, constraints=Constraints(spread=(constraint,)))
    assert allowed(PodTopologySpread(), pod, view(*NODES, *there)) == allowed_names


def test_pods_that_are_going_do_not_count_and_other_namespaces_neither() -> None:
    going = builders.pod("going", node="a1", labels={"app": "web"}, deleting=True)
    elsewhere = builders.pod("other", namespace="elsewhere", node="a1", labels={"app": "web"})
    pod = builders.pod("new", labels={"app": "web"}, constraints=Constraints(spread=(spread(),)))
    assert allowed(PodTopologySpread(), pod, view(*NODES, going, elsewhere)) == {"a1", "b1"}


@pytest.mark.parametrize(
    "other",
    [
        builders.pod(
            "other", labels={"app": "web"}, namespace="elsewhere", constraints=Constraints(spread=(spread(),))
        ),
        builders.pod("other", labels={"app": "web"}, constraints=Constraints(spread=(spread(max_skew=2),))),
        builders.pod("other", labels={"app": "web"}, constraints=Constraints(spread=(spread(topology_key="rack"),))),
        builders.pod(
            "other",
            labels={"app": "web"},
            constraints=Constraints(spread=(spread(),)),
            node_selector={builders.ZONE: "a"},
        ),
    ],
    ids=["namespace", "skew", "key", "nodes"],
)
def test_a_change_is_judged_once_for_pods_that_it_helps_alike_only(other: model.Pod) -> None:
    hint = PodTopologySpread.queueing_hint
    pod, twin = (
        builders.pod(name, labels={"app": "web"}, constraints=Constraints(spread=(spread(),))) for name in ("p", "q")
    )
    assert hint.shape_of(pod, None) == hint.shape_of(twin, None) != hint.shape_of(other, None)


def test_a_pod_counts_in_the_tally_as_it_counts_on_a_node() -> None:
    pod = builders.pod("new", labels={"app": "web"}, constraints=Constraints(spread=(spread(),)))
    cluster = view(*NODES)
    tally = PodTopologySpread().tally(pod_info(pod, cluster.storage, cluster.now), cluster)
    (state,) = (each for each in cluster.nodes if each.name == "a1")
    alike = builders.pod("there", node="a1", labels={"app": "web"})
    assert tally.adds(alike, state) == (1,)
    assert tally.adds(msgspec.structs.replace(alike, labels=()), state) == (0,)
    assert tally.adds(msgspec.structs.replace(alike, deleting=True), state) == (0,)
    assert tally.adds(msgspec.structs.replace(alike, namespace="elsewhere"), state) == (0,)


def test_the_reasons() -> None:
    pod = builders.pod("new", labels={"app": "web"}, constraints=Constraints(spread=(spread(),)))
    result = reasons(PodTopologySpread(), pod, view(*NODES, *webs(a1=1)))
    assert result == {"a1": Reason.TOPOLOGY_SPREAD, "b1": None, "x1": Reason.TOPOLOGY_LABEL_MISSING}


def selects(constraint: SpreadConstraint, pod: model.Pod, other: model.Pod) -> bool:
    if constraint.selector is None or not matches_labels(constraint.selector, other.labels):
        return False
    own, theirs = dict(pod.labels), dict(other.labels)
    return all(own[key] == theirs.get(key) for key in constraint.match_label_keys if key in own)


def takes_part(constraint: SpreadConstraint, pod: model.Pod, node: model.Node) -> bool:
    labels = dict(node.labels)
    if constraint.node_affinity_policy == "Honor":
        chosen = all(labels.get(key) == value for key, value in pod.node_selector)
        if not chosen or not pod_node_affinity_matches(pod.node_affinity, labels, node.name):
            return False
    honored = constraint.node_taints_policy == "Honor"
    return not honored or untolerated_taint(effective_taints(node), pod.tolerations) is None


def fits(pod: model.Pod, node: model.Node, nodes: list[model.Node], there: list[model.Pod]) -> bool:
    """As filtering.go puts it, pod by pod."""
    hard = [
        constraint
        for constraint in (pod.constraints.spread if pod.constraints else ())
        if constraint.when_unsatisfiable == DO_NOT_SCHEDULE
    ]
    labels = {node.name: dict(node.labels) for node in nodes}
    counting = [node for node in nodes if all(each.topology_key in labels[node.name] for each in hard)]
    for constraint in hard:
        key = constraint.topology_key
        if key not in labels[node.name]:
            return False
        counts = {labels[each.name][key]: 0 for each in counting if takes_part(constraint, pod, each)}
        empty = constraint.selector == LabelSelector() and not any(
            name in dict(pod.labels) for name in constraint.match_label_keys
        )
        for each in counting:
            if takes_part(constraint, pod, each) and not empty:
                counts[labels[each.name][key]] += sum(
                    other.node_name == each.name
                    and other.namespace == pod.namespace
                    and not other.deleting
                    and selects(constraint, pod, other)
                    for other in there
                )
        fewest = min(counts.values(), default=0) if len(counts) >= constraint.min_domains else 0
        if counts.get(labels[node.name][key], 0) + selects(constraint, pod, pod) - fewest > constraint.max_skew:
            return False
    return True


@settings(deadline=None, max_examples=80)
@given(clusters.clusters(), clusters.pods("new"))
def test_counting_by_domains_equals_counting_every_pod(records: list[model.Node | model.Pod], pod: model.Pod) -> None:
    nodes = [record for record in records if isinstance(record, model.Node)]
    there = [record for record in records if isinstance(record, model.Pod)]
    plain = {node.name for node in nodes if fits(pod, node, nodes, there)}
    assert allowed(PodTopologySpread(), pod, view(*records)) == plain
