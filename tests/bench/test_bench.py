"""Each measurement runs at a tiny scale and yields what it says; how fast is never asked here."""

import math

import pytest

from bench.cache_bench import run as read_large_cluster
from bench.documents import volume
from bench.large_cluster import LargeCluster
from bench.pairs import Case
from bench.pairs_bench import cases, measure
from bench.quiet_bench import count_requests
from bench.rows import Row
from bench.scarce_bench import Puzzle
from devcluster.nodes import DEFAULT_ZONES
from kube.decoding.decode import decode_volume
from kube.rules.quantity import parse_quantity


@pytest.mark.parametrize(
    ("row", "met"),
    [
        pytest.param(Row("r", 5, "s"), None, id="no-goal"),
        pytest.param(Row("r", 5, "s", at_most=5), True, id="at-most"),
        pytest.param(Row("r", 6, "s", at_most=5), False, id="too-much"),
        pytest.param(Row("r", 5, "x", at_least=5), True, id="at-least"),
        pytest.param(Row("r", 4, "x", at_least=5), False, id="too-little"),
    ],
)
def test_a_row_knows_whether_its_goal_is_met(row: Row, met: bool | None) -> None:
    assert row.met is met


def test_a_large_cluster_is_read() -> None:
    rows = {row.name: row.value for row in read_large_cluster(quick=True)}
    assert 0 < rows["memory held"] <= rows["memory at the peak"]
    assert all(value > 0 for value in rows.values())


def test_volumes_of_the_large_cluster_are_what_an_api_server_sends() -> None:
    cluster = LargeCluster(pairs=5, nodes=1)
    volumes = [decode_volume(raw) for raw in cluster.lists["persistentvolumes"]]
    assert [one.phase for one in volumes] == ["Bound"] * 3 + ["Available"] * 2
    assert all(one.node_affinity and one.handle and one.storage_class for one in volumes)


@pytest.mark.parametrize("seed", range(3))
def test_each_puzzle_has_a_solution(seed: int) -> None:
    """As many volumes of each size as claims of it, and none in a zone of its own."""
    puzzle = Puzzle.of(seed, pods=20)
    wanted = sorted(parse_quantity(f"{size}Gi") for sizes in puzzle.pods.values() for size in sizes)
    offered = sorted(parse_quantity(one["spec"]["capacity"]["storage"]) for one in puzzle.volumes)
    assert offered == wanted
    assert {len(sizes) for sizes in puzzle.pods.values()} == {2, 3}


def test_every_case_with_us_has_one_without_us_to_compare_with() -> None:
    chosen = cases(500)
    in_tree = {(case.pairs, case.lifted) for case in chosen if not case.mode}
    assert {(case.pairs, case.lifted) for case in chosen} == in_tree
    assert len({case.title for case in chosen}) == len(chosen)


def test_documents_are_zonal() -> None:
    terms = volume("v", DEFAULT_ZONES[0])["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == [DEFAULT_ZONES[0]]


@pytest.mark.cluster
def test_pairs_are_timed_on_a_control_plane() -> None:
    rows = {row.name: row.value for row in measure([Case(3, "complete", gated=True)])}
    assert all(value > 0 and math.isfinite(value) for value in rows.values())
    assert len(rows) == 4


@pytest.mark.cluster
async def test_requests_are_counted_on_a_control_plane() -> None:
    rows = {row.name: row.value for row in await count_requests(pairs=2, settling=0.0, seconds=5.0)}
    assert rows["renewals of the Lease"] > 0
