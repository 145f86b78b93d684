from scheduler.state.node_info import NodeInfo
from scheduler.state.node_memory import FEW, MAX_CACHE_KEYS, NodeMemory
from tests import builders
from tests.scheduler.plugin_results import view


def test_an_answer_holds_until_the_node_changes() -> None:
    names: list[str] = []

    def free(node: NodeInfo) -> int:
        names.append(node.name)
        return node.free["cpu"]

    memory: NodeMemory[int] = NodeMemory()
    cluster = view(builders.node("n0"), builders.node("n1"))
    before = memory.answers("free", cluster.nodes, free)
    assert memory.answers("free", cluster.nodes, free) == before
    assert names == ["n0", "n1"]
    fuller = cluster.with_pod(builders.pod(requests={"cpu": "1"}), "n1")
    assert memory.answers("free", fuller.nodes, free) == [before[0], before[1] - 10**9]
    assert names == ["n0", "n1", "n1"]


def test_keys_are_distinguished_and_not_kept_for_ever() -> None:
    memory: NodeMemory[int] = NodeMemory()
    nodes = view(builders.node("n0")).nodes
    for cache_key in range(MAX_CACHE_KEYS + 2):
        assert memory.answers(cache_key, nodes, lambda _, answer=cache_key: answer) == [cache_key]  # type: ignore[misc]


def test_an_answer_stays_cached_as_long_as_it_is_used() -> None:
    memory: NodeMemory[int] = NodeMemory()
    nodes = view(builders.node("n0")).nodes
    for number in range(2 * MAX_CACHE_KEYS):
        assert memory.answers("often", nodes, lambda _, number=number: number) == [0]  # type: ignore[misc]
        memory.answers(number, nodes, lambda _: 0)


def test_results_for_few_of_many_nodes_are_not_cached() -> None:
    """Otherwise each template of a single pod would take room for all nodes."""
    names: list[str] = []

    def free(node: NodeInfo) -> int:
        names.append(node.name)
        return node.free["cpu"]

    memory: NodeMemory[int] = NodeMemory()
    nodes = view(*(builders.node(f"n{number:03}") for number in range(4 * FEW + 4))).nodes
    few = nodes[-FEW:]
    assert memory.answers("free", few, free) == memory.answers("free", few, free)
    assert len(names) == 2 * FEW
    memory.answers("free", nodes, free)
    names.clear()
    memory.answers("free", few, free)
    assert names == []


def test_no_nodes() -> None:
    memory: NodeMemory[int] = NodeMemory()
    assert memory.answers("free", (), lambda _: 0) == []
