import pytest

from bench.control_plane.scarce_bench import Puzzle
from kube.rules.quantity import parse_quantity


@pytest.mark.parametrize("seed", range(3))
def test_each_puzzle_has_a_solution(seed: int) -> None:
    """As many volumes of each size as claims of it, and none in a zone of its own."""
    puzzle = Puzzle.of(seed, pods=20)
    wanted = sorted(parse_quantity(f"{size}Gi") for sizes in puzzle.pods.values() for size in sizes)
    offered = sorted(parse_quantity(volume["spec"]["capacity"]["storage"]) for volume in puzzle.volumes)
    assert offered == wanted
    assert {len(sizes) for sizes in puzzle.pods.values()} == {2, 3}
