"""The tables of kube-scheduler's own unit tests, for the scores by resources.

Of Kubernetes 1.37.1, below pkg/scheduler/framework/plugins/noderesources: least_allocated_test.go
(TestLeastAllocatedScoringStrategy), most_allocated_test.go (TestMostAllocatedScoringStrategy) and
balanced_allocation_test.go (TestNodeResourcesBalancedAllocation). Left out are invalid weights, which the
configuration file rejects before (test_config), no resources at all, and devices.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kube.objects.model import Pod
from scheduler.framework.plugin import Score
from scheduler.framework.profile import Thresholds
from scheduler.plugins.resource_scores import Balanced, BinPack, LeastAllocated
from tests import builders
from tests.scheduler.framework.test_upstream_filters import decoded_pod
from tests.scheduler.plugin_results import scores, view

Amounts = Mapping[str, str]
EXTENDED, GPU = "example.com/foo", "nvidia.com/gpu"
EQUAL = {"cpu": 1, "memory": 1}
MEMORY_TWICE = {"memory": 2, "cpu": 1}
WITH_EXTENDED = EQUAL | {EXTENDED: 1}
WITH_GPU = EQUAL | {GPU: 1}


def of(cpu: str, memory: str, **extended: str) -> Amounts:
    return {"cpu": cpu, "memory": memory} | {{"foo": EXTENDED, "gpu": GPU}[name]: has for name, has in extended.items()}


NOTHING: Amounts = {}
WANTED, EMPTY = of("3000", "5000"), of("0", "0")
CPU_ONLY, BOTH = of("3000", "0"), of("3000", "5000")
SMALL, WIDE, LARGE = of("4000", "10000"), of("6000", "10000"), of("10000", "20000")


def scored(
    plugin: type[Any],
    weights: Mapping[str, int],
    wanted: Amounts,
    nodes: Sequence[Amounts],
    used: Sequence[Sequence[Amounts]],
) -> list[int] | None:
    """Return the score of each node, on which there are pods that use so much."""
    named = [builders.node(f"node{number}", allocatable=has) for number, has in enumerate(nodes)]
    pods = [
        builders.pod(f"there-{number}-{place}", node=f"node{number}", requests=amounts)
        for number, there in enumerate(used)
        for place, amounts in enumerate(there)
    ]
    score: Score = plugin(Thresholds(resources=weights))
    given = scores(score, builders.pod("new", requests=wanted), view(*named, *pods))
    return None if given is None else [given[node.name] for node in named]


Case = tuple[str, Mapping[str, int], Amounts, Sequence[Amounts], Sequence[Sequence[Amounts]], list[int]]

LEAST: Sequence[Case] = (
    ("nothing scheduled, nothing requested", EQUAL, NOTHING, [SMALL, SMALL], [], [100, 100]),
    ("resources requested, differently sized nodes", EQUAL, WANTED, [SMALL, WIDE], [], [37, 50]),
    ("no resources requested, pods scheduled", EQUAL, NOTHING, [SMALL] * 2, [[NOTHING] * 2] * 2, [100, 100]),
    (
        "no resources requested, pods scheduled with resources",
        *(EQUAL, NOTHING, [LARGE, LARGE], [[CPU_ONLY, CPU_ONLY], [CPU_ONLY, BOTH]], [70, 57]),
    ),
    ("both requested", EQUAL, WANTED, [LARGE, LARGE], [[CPU_ONLY], [BOTH]], [57, 45]),
    (
        "both requested, differently sized nodes",
        *(EQUAL, WANTED, [LARGE, of("10000", "50000")], [[CPU_ONLY], [BOTH]], [57, 60]),
    ),
    ("requested resources exceed node capacity", EQUAL, CPU_ONLY, [SMALL, SMALL], [[CPU_ONLY], [BOTH]], [50, 25]),
    ("zero node resources", EQUAL, NOTHING, [EMPTY, EMPTY], [[CPU_ONLY], [BOTH]], [0, 0]),
    ("different weights", MEMORY_TWICE, WANTED, [SMALL, WIDE], [], [41, 50]),
    ("extended resource not requested", WITH_EXTENDED, WANTED, [WIDE, of("6000", "10000", foo="4")], [], [50, 50]),
    (
        "extended resource requested",
        WITH_EXTENDED,
        of("3000", "5000", foo="2"),
        [of("6000", "10000", foo="4"), of("6000", "10000", foo="10")],
        [],
        [50, 60],
    ),
    (
        "a node without a resource",
        EQUAL | {EXTENDED: 2},
        of("3000", "4000"),
        [WIDE, of("6000", "10000", foo="4")],
        [],
        [55, 55],
    ),
)
MOST: Sequence[Case] = (
    ("nothing scheduled, nothing requested", EQUAL, NOTHING, [SMALL, SMALL], [], [0, 0]),
    ("resources requested, differently sized nodes", EQUAL, WANTED, [SMALL, WIDE], [], [62, 50]),
    (
        "no resources requested, pods scheduled with resources",
        *(EQUAL, NOTHING, [LARGE, LARGE], [[CPU_ONLY, CPU_ONLY], [CPU_ONLY, BOTH]], [30, 42]),
    ),
    ("both requested", EQUAL, WANTED, [LARGE, LARGE], [[CPU_ONLY], [BOTH]], [42, 55]),
    (
        "resources requested equal node capacity",
        *(EQUAL, of("5000", "9000"), [of("5000", "10000"), of("10000", "9000")], [], [95, 75]),
    ),
    ("different weights", MEMORY_TWICE, WANTED, [SMALL, WIDE], [], [58, 50]),
    ("extended resource not requested", WITH_EXTENDED, WANTED, [WIDE, of("6000", "10000", foo="4")], [], [50, 50]),
    (
        "extended resource requested",
        WITH_EXTENDED,
        of("3000", "5000", foo="2"),
        [of("6000", "10000", foo="4"), of("6000", "10000", foo="10")],
        [],
        [50, 40],
    ),
    (
        "a node without a resource",
        EQUAL | {EXTENDED: 2},
        of("3000", "4000"),
        [WIDE, of("6000", "10000", foo="4")],
        [],
        [45, 45],
    ),
)
CPU_3, BOTH_3 = of("3", "0"), of("3", "5000")
TEN, SIX = of("10", "20000"), of("6", "10000")
BALANCED: Sequence[Case] = (
    ("resources requested, differently sized nodes", EQUAL, BOTH_3, [of("4", "10000"), SIX], [], [68, 75]),
    ("pods scheduled with resources", EQUAL, BOTH_3, [TEN, TEN], [[CPU_3], [BOTH_3]], [73, 74]),
    ("the same, differently sized nodes", EQUAL, BOTH_3, [TEN, of("10", "50000")], [[CPU_3], [BOTH_3]], [73, 70]),
    (
        "nodes to reach the highest and the lowest score",
        *(EQUAL, {"memory": "5000"}, [of("3", "5000"), of("3", "5000")], [[CPU_3], []], [100, 50]),
    ),
    ("requested resources at node capacity", EQUAL, CPU_3, [SIX, SIX], [[CPU_3], [BOTH_3]], [62, 62]),
    (
        "scalar resource requested",
        WITH_GPU,
        of("0", "0", gpu="1"),
        [of("3500m", "40000", gpu="8"), of("3500m", "40000", gpu="8")],
        [[of("1", "2000"), of("2", "3000", gpu="3")], [of("1", "2000"), of("2", "3000")]],
        [75, 76],
    ),
    (
        "scalar resource not requested",
        *(WITH_GPU, BOTH_3, [of("3500m", "40000", gpu="8"), of("3500m", "40000")], [], [56, 56]),
    ),
)


@pytest.mark.parametrize(
    ("plugin", "case"),
    [
        pytest.param(plugin, case, id=f"{plugin.name}: {case[0]}")
        for plugin, cases in ((LeastAllocated, LEAST), (BinPack, MOST), (Balanced, BALANCED))
        for case in cases
    ],
)
def test_nodes_are_scored_as_by_kube_scheduler(plugin: type[Any], case: Case) -> None:
    *given, expected = case[1:]
    assert scored(plugin, *given) == expected  # type: ignore[arg-type]


def test_a_pod_that_requests_nothing_is_not_scored_by_balance() -> None:
    assert scored(Balanced, EQUAL, NOTHING, [SMALL, SMALL], []) is None


def test_a_container_that_requests_nothing_counts_with_the_amounts_that_kube_scheduler_assumes() -> None:
    def bare(name: str, node: str | None = None) -> Pod:
        return decoded_pod({"containers": [{"name": "container"}]}, name, node)

    nodes = [builders.node(name, allocatable={"cpu": "250m", "memory": "1000Mi"}) for name in ("node1", "node2")]
    cluster = view(*nodes, bare("a", "node1"), bare("b", "node1"))
    assert scores(BinPack(Thresholds()), bare("new"), cluster) == {"node1": 80, "node2": 30}
