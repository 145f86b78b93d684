"""A view that was renewed step by step is the view of what came out."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.objects import model
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import differs_by_news
from tests import builders
from tests.scheduler import clusters
from tests.scheduler.plugin_results import storage, view


def same(view: ClusterView, other: ClusterView) -> bool:
    states = [(a, b) for a, b in zip(view.nodes, other.nodes, strict=True)]
    alike = all(
        (a.number, a.node, a.free, a.scored, a.ports, a.attach)
        == (b.number, b.node, b.free, b.scored, b.ports, b.attach)
        and {pod.key for pod in a.pods} == {pod.key for pod in b.pods}
        for a, b in states
    )
    return alike and view.index == other.index and view.pod_groups == other.pod_groups and view.numbers == other.numbers


@settings(deadline=None, max_examples=40)
@given(clusters.clusters(), st.data())
def test_pods_come_and_go(records: list[model.Node | model.Pod], data: st.DataObject) -> None:
    nodes = [record for record in records if isinstance(record, model.Node)]
    pods = [record for record in records if isinstance(record, model.Pod)]
    cluster = view(*nodes)
    for pod in pods:
        cluster = cluster.with_pod(pod, pod.node_name)
    assert same(cluster, view(*records))
    gone = [pod for pod in pods if data.draw(st.booleans())]
    for pod in gone:
        cluster = cluster.without_pod(pod.key, pod.node_name)
    assert same(cluster, view(*nodes, *(pod for pod in pods if pod not in gone)))


def test_a_pod_that_comes_brings_what_is_attached_for_it() -> None:
    where: list[model.Record] = [builders.node("n0"), builders.csi_node("n0", limits={"disk.csi.example": 3})]
    claim = builders.claim("data", volume_name="pv", phase="Bound")
    records: list[model.Record] = [*where, claim, builders.volume("pv", claim="default/data", phase="Bound")]
    first, second = builders.pod("p0", claims=["data"], node="n0"), builders.pod("p1", node="n0")
    (attached,) = view(*records, first).nodes
    assert attached.attach != view(*records).nodes[0].attach
    cluster = view(*records).with_pod(first, "n0")
    assert same(cluster, view(*records, first))
    assert same(cluster.with_pod(second, "n0"), view(*records, first, second))


@settings(deadline=None, max_examples=40)
@given(clusters.clusters(), clusters.nodes())
def test_nodes_change_and_appear(records: list[model.Node | model.Pod], after: list[model.Node]) -> None:
    known = {record.name: record for record in records if isinstance(record, model.Node)}
    pods = [record for record in records if isinstance(record, model.Pod)]
    cluster = view(*records)
    for node in after:
        cluster = cluster.with_node(node)
    expected = known | {node.name: node for node in after}
    assert same(cluster, view(*expected.values(), *pods))


def test_a_node_that_goes_takes_its_pods_with_it() -> None:
    nodes = [builders.node(name) for name in ("n0", "n1", "n2")]
    pods = [builders.pod(f"p-{node.name}", node=node.name, labels={"app": "web"}) for node in nodes]
    cluster = view(*nodes, *pods).without_node("n1")
    assert same(cluster, view(nodes[0], nodes[2], pods[0], pods[2]))
    assert cluster.without_node("n1") is cluster


def test_what_is_not_there_changes_nothing() -> None:
    cluster = view(builders.node("n0"))
    assert cluster.with_pod(builders.pod(), "elsewhere") is cluster
    assert cluster.without_pod("default/web", "n0") is cluster
    assert cluster.node("elsewhere") is None


def on_node(**changed: Any) -> model.Pod:
    return builders.pod(**({"node": "n0", "requests": {"cpu": "1"}} | changed))


def test_a_changed_pod_is_shown_and_leaves_the_free_resources_of_its_node() -> None:
    others = [builders.pod(name, node="n0") for name in ("a", "z")]
    before, after = on_node(), on_node(resource_version=2, phase="Running")
    cluster = view(builders.node("n0"), others[0], before, others[1])
    moved = cluster.with_moves([((before, "n0"), (after, "n0"))])
    assert {pod.key: pod for pod in moved.nodes[0].pods} == {pod.key: pod for pod in (*others, after)}
    assert differs_by_news(cluster.nodes[0], moved.nodes[0])
    assert same(moved, cluster)


@pytest.mark.parametrize(
    "changed",
    [
        {"requests": {"cpu": "2"}},
        {"labels": {"app": "other"}},
        {"deleting": True},
        {"uid": "another"},
        {"claims": ["data"]},
        {"phase": "Failed"},
    ],
    ids=["resized", "labelled", "deleted", "recreated", "with claims", "ended"],
)
def test_a_pod_that_counts_otherwise_is_counted_again(changed: dict[str, Any]) -> None:
    before, after = on_node(), on_node(resource_version=2, **changed)
    cluster = view(builders.node("n0"), before)
    moved = cluster.with_moves([((before, "n0"), (after, "n0"))])
    assert same(moved, view(builders.node("n0"), after))
    assert not differs_by_news(cluster.nodes[0], moved.nodes[0])


def test_an_earlier_view_stays_as_it_was() -> None:
    cluster = view(builders.node("n0"))
    cluster.with_pod(builders.pod(requests={"cpu": "1"}), "n0")
    assert cluster.nodes[0].pods == ()


def test_a_finished_pod_holds_nothing() -> None:
    done = builders.pod(node="n0", phase="Succeeded", requests={"cpu": "1"})
    assert same(view(builders.node("n0"), done), view(builders.node("n0")))


def test_a_bound_claim_counts_as_its_volume_from_then_on() -> None:
    node, pod = builders.node("n0"), builders.pod(node="n0", claims=["data"])
    made = builders.storage_class(provisioner="disk.csi.example")
    bound = builders.claim("data", volume_name="pv-1")
    before = view(node, pod, made, builders.claim("data"))
    after = storage(node, pod, made, bound, builders.volume("pv-1"))
    assert before.nodes[0].attach.used == {("disk.csi.example", "claim default/data")}
    assert before.with_storage(after, ["n0"]).nodes[0].attach.used == {("disk.csi.example", "handle-pv-1")}
