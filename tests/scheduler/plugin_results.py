"""Views of small clusters, and what one plugin says about their nodes."""

from collections.abc import Iterable
from datetime import datetime

from binder.matching.index import VolumeIndex
from binder.matching.rejection import Reason
from binder.model.view import PlanSettings, View
from kube.objects import model
from kube.objects.model import Namespace, Record, Volume
from kube.store.store import snapshot_of
from scheduler.cycle.cycle import judge, placed, totals
from scheduler.cycle.rejections import states_of
from scheduler.framework.plugin import Filter, NodeRule, ScheduleResult, Score
from scheduler.framework.profile import Profile
from scheduler.state.cluster import ClusterView, view_of
from scheduler.volumes.volumes import pod_info
from tests import builders


def storage(*records: Record, settings: PlanSettings | None = None) -> View:
    volumes = [record for record in records if isinstance(record, Volume)]
    return View(snapshot_of(records), VolumeIndex.of(volumes), settings=settings or PlanSettings())


def view(*records: Record, now: datetime = builders.EPOCH) -> ClusterView:
    namespaces = {record.name: record.labels for record in records if isinstance(record, Namespace)}
    return view_of(storage(*records), now, namespaces)


def reasons(plugin: Filter, pod: model.Pod, cluster: ClusterView) -> dict[str, Reason | None]:
    """Why each node is rejected, by its name; every form of the rule is evaluated and must agree."""
    rule = plugin.rule(pod_info(pod, cluster.storage, cluster.now), cluster)
    if rule is None:
        return {state.name: None for state in cluster.nodes}
    rejections = {state.name: rule.why(state) for state in cluster.nodes}
    assert all(rejection.subject == name for name, rejection in rejections.items() if rejection is not None)
    fitting = [name for name, rejection in rejections.items() if rejection is None]
    assert fitting == quickly(rule, cluster)
    if rule.reasons is not None:
        by_reason = rule.reasons(cluster.index.everything)
        pairs = [(reason, state.name) for reason, nodes in by_reason for state in states_of(nodes, cluster)]
        assert sorted(pairs) == sorted(
            (rejection.reason, name) for name, rejection in rejections.items() if rejection is not None
        )
    return {name: None if rejection is None else rejection.reason for name, rejection in rejections.items()}


def quickly(rule: NodeRule, cluster: ClusterView) -> list[str]:
    """The nodes that the rule's quick form lets pass."""
    if rule.allowed_nodes is not None:
        assert rule.allowed_nodes <= cluster.index.everything
        return [state.name for state in cluster.nodes if rule.allowed_nodes >> state.number & 1]
    if rule.fitting is not None:
        return [state.name for state in rule.fitting(cluster.nodes)]
    return [state.name for state in cluster.nodes if rule.why(state) is None]


def best_placements(pod: model.Pod, cluster: ClusterView, profile: Profile) -> dict[str, ScheduleResult]:
    """By node, where the pod may go when all nodes are looked at: those that fit and score highest."""
    judgement = judge(pod, cluster, profile)
    allowed_nodes = [state for state in cluster.nodes if judgement.allowed_nodes >> state.number & 1]
    nodes = [state for state in allowed_nodes if judgement.why(state) is None]
    sums = totals(judgement.info, cluster, profile, nodes)
    best = [state for state, total in zip(nodes, sums, strict=True) if total == max(sums)]
    return {state.name: placed(judgement, state) for state in best}


def allowed(plugin: Filter, pod: model.Pod, cluster: ClusterView) -> set[str]:
    return {name for name, reason in reasons(plugin, pod, cluster).items() if reason is None}


def scores(plugin: Score, pod: model.Pod, cluster: ClusterView, names: Iterable[str] = ()) -> dict[str, int] | None:
    """The score of each node, or of those named; None when the plugin has nothing to say."""
    wanted = set(names)
    nodes = [state for state in cluster.nodes if not wanted or state.name in wanted]
    result = plugin.scores(pod_info(pod, cluster.storage, cluster.now), cluster, nodes)
    if result is None:
        return None
    assert all(type(score) is int and 0 <= score <= 100 for score in result)
    return {state.name: score for state, score in zip(nodes, result, strict=True)}
