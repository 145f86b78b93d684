from math import inf

from bench.control_plane.provision_bench import POOL, Outcome, Puzzle


def test_the_claims_of_each_puzzle_leave_the_slack_free() -> None:
    puzzle = Puzzle.of(seed=1, pools=4, slack=5)
    assert len(puzzle.pods) == 20
    assert sum(map(sum, puzzle.pods.values())) == 4 * POOL * 95 // 100
    assert min(min(sizes) for sizes in puzzle.pods.values()) > 0


def test_pods_that_never_have_a_node_count_as_the_last() -> None:
    outcome = Outcome(4, 0, 0, (1.0, 2.0, 3.0))
    assert [outcome.after(share) for share in (1, 25, 26, 75, 76, 100)] == [1.0, 1.0, 2.0, 3.0, inf, inf]


def test_the_worst_percentile_that_the_other_reaches_counts() -> None:
    quick, slow = Outcome(4, 0, 0, (1.0, 2.0, 3.0, 4.0)), Outcome(4, 0, 0, (1.5, 2.5, 3.25, 9.0))
    assert quick.behind(slow) == (-0.25, 75)
    assert slow.behind(quick) == (5.0, 100)
    assert slow.behind(Outcome(4, 2, 2, (1.0, 2.0))) == (0.5, 50)
    assert Outcome(4, 2, 2, (1.0, 2.0)).behind(slow) == (inf, 100)
