"""Incremental filters return for a node what filters return that are prepared again with or without some pods."""

from collections.abc import Sequence
from operator import add, sub

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.objects import model
from kube.objects.model import READ_WRITE_ONCE_POD
from scheduler.framework.plugin import Eviction
from scheduler.plugins.registry import REGISTRY, default_profile
from scheduler.state.cluster import ClusterView
from scheduler.volumes.volumes import PodInfo, pod_info
from tests import builders
from tests.scheduler.clusters import clusters, pods
from tests.scheduler.plugin_results import view

FILTERS = {plugin.name: plugin for plugin in default_profile("test").filters}


def test_every_filter_of_ours_says_what_preemption_has_to_know() -> None:
    assert [name for name, plugin in REGISTRY.filters.items() if plugin.eviction is Eviction.UNKNOWN] == []


def filtered(name: str, info: PodInfo, cluster: ClusterView, node: str) -> bool:
    state = cluster.node(node)
    assert state is not None
    rule = FILTERS[name].rule(info, cluster)
    return rule is None or rule.why(state) is None


def tallied(
    name: str, info: PodInfo, cluster: ClusterView, node: str, gone: Sequence[model.Pod], more: Sequence[model.Pod]
) -> bool:
    state = cluster.node(node)
    assert state is not None
    tally = FILTERS[name].tally(info, cluster)
    counts = tally.counts(state)
    for pod in gone:
        counts = tuple(map(sub, counts, tally.adds(pod, state)))
    for pod in more:
        counts = tuple(map(add, counts, tally.adds(pod, state)))
    return tally.allows(state, counts)


@pytest.mark.parametrize("name", ["PodTopologySpread", "InterPodAffinity"])
@settings(max_examples=40)
@given(data=st.data())
def test_neighbours(name: str, data: st.DataObject) -> None:
    cluster = view(*data.draw(clusters()))
    info = pod_info(data.draw(pods("new")), cluster.storage, cluster.now)
    nominated = data.draw(pods("nominated"))
    for state in cluster.nodes:
        gone = [pod for pod in state.pods if data.draw(st.booleans())]
        more = [nominated] if data.draw(st.booleans()) else []
        moved = cluster.with_moves([((pod, state.name), None) for pod in gone])
        moved = moved.with_moves([(None, (pod, state.name)) for pod in more])
        assert tallied(name, info, cluster, state.name, gone, more) == filtered(name, info, moved, state.name)


@pytest.mark.parametrize("users", [(), ("n1",), ("n1", "n1"), ("n1", "n2")], ids=str)
def test_claims_that_only_one_pod_may_use(users: Sequence[str]) -> None:
    there = [builders.pod(f"user-{number}", node=node, claims=["data"]) for number, node in enumerate(users)]
    claim = builders.claim(access_modes=[READ_WRITE_ONCE_POD])
    nodes = [builders.node("n1"), builders.node("n2")]
    cluster = view(*nodes, *there, claim, builders.volume(), builders.storage_class())
    info = pod_info(builders.pod("new", claims=["data", "data"]), cluster.storage, cluster.now)
    for count in range(len(there) + 1):
        gone = [pod for pod in there[:count] if pod.node_name == "n1"]
        left = cluster.with_moves([((pod, "n1"), None) for pod in gone])
        assert tallied("VolumeRestrictions", info, cluster, "n1", gone, ()) == filtered(
            "VolumeRestrictions", info, left, "n1"
        )
