"""Which pods are served when volumes are short: as many as any placement can serve, and no pod loses its place."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binder.matching.matching import scheduler_rejection
from binder.model.decision import Reserve
from binder.model.view import View
from binder.planning.plan import plan
from binder.rebalance.integer_program import IntegerProgram, Solution, Solve, gained
from kube.objects.constraints import Constraints, PodTerm
from kube.objects.labels import LabelSelector
from kube.objects.model import Pod, Record
from tests.binder.views import NOW, HiddenSolution, chosen, pods_of, view, without_a_clock
from tests.builders import HOSTNAME, ZONE, claim, node, pod, volume

APART = Constraints(anti_affinity=(PodTerm(HOSTNAME, LabelSelector((("app", "web"),))),))
GOLD = LabelSelector(match_labels=(("tier", "gold"),))


def unchanged(program: IntegerProgram, _: float, /) -> Solution:
    """A solver that finds nothing."""
    return Solution(program.start, inf, 0.0)


def everywhere(program: IntegerProgram, _: float, /) -> Solution:
    """A wrong solver: every pod may be placed everywhere."""
    return Solution([round(most) for most in program.most[: len(program.start)]], inf, 0.0)


def served(seen: View, solve: Solve = without_a_clock) -> dict[str, Reserve]:
    decisions = plan(seen, pods_of(seen), NOW, solve=solve)
    return {decision.pod.name: decision for decision in decisions if isinstance(decision, Reserve)}


@st.composite
def short_of_volumes(draw: st.DrawFn) -> list[Record]:
    """Up to five pods of one or two claims, with and without selector, and some four volumes, zonal or local."""
    zones = st.sampled_from("ab")
    records: list[Record] = [
        node(f"n-{zone}", zone=zone, allocatable={"cpu": str(draw(st.integers(2, 5)))}) for zone in "ab"
    ]
    for number in range(draw(st.integers(2, 6))):
        zone = draw(st.sampled_from(["a", "b", None]))
        local = f"n-{zone}" if zone and draw(st.booleans()) else None
        labels = draw(st.sampled_from([{}, {"tier": "gold"}]))
        size = f"{draw(st.integers(1, 3))}Gi"
        records.append(volume(f"v{number}", size=size, zone=None if local else zone, node=local, labels=labels))
    for number in range(draw(st.integers(2, 5))):
        names = [f"c{number}-{part}" for part in range(draw(st.integers(1, 2)))]
        selector = draw(st.sampled_from([None, None, GOLD]))
        records += [claim(name, size=f"{draw(st.integers(1, 3))}Gi", selector=selector) for name in names]
        where_to = draw(st.sampled_from([{}, {}, {ZONE: draw(zones)}]))
        records.append(
            pod(f"p{number}", claims=names, requests={"cpu": draw(st.sampled_from("12"))}, node_selector=where_to)
        )
    return records


def placements(pods: Sequence[Pod]) -> Iterator[dict[str, str | None]]:
    for nodes in product(("n-a", "n-b", None), repeat=len(pods)):
        yield {pod.name: name for pod, name in zip(pods, nodes, strict=True)}


def is_possible(seen: View, at: Mapping[str, str | None]) -> bool:
    """Whether nodes have room and zones, and some choice of distinct volumes serves all claims: by trying all."""
    wanted = []
    for name, there in seen.snapshot.nodes.items():
        pods = [pod for pod in seen.snapshot.pods.values() if at[pod.name] == name]
        if sum(dict(pod.requests)["cpu"] for pod in pods) > dict(there.allocatable)["cpu"]:
            return False
        if any(dict(there.labels).get(key) != value for pod in pods for key, value in pod.node_selector):
            return False
        wanted += [(seen.snapshot.claims[key], dict(there.labels)) for pod in pods for key in pod.claim_keys]
    volumes = seen.snapshot.volumes.values()
    fitting = [{v.name for v in volumes if scheduler_rejection(each, v, labels) is None} for each, labels in wanted]
    return any(
        all(name in names for name, names in zip(order, fitting, strict=True))
        for order in permutations(sorted(seen.snapshot.volumes), len(fitting))
    )


@given(records=short_of_volumes())
@settings(max_examples=150, deadline=None)
def test_as_many_pods_are_served_as_any_placement_that_keeps_the_first_ones_can_serve(
    records: list[Record],
) -> None:
    seen = view(*records)
    first = served(seen, unchanged)
    now = served(seen)
    assert set(first) <= set(now)
    most = max(
        sum(name is not None for name in at.values())
        for at in placements(pods_of(seen))
        if all(at[name] is not None for name in first) and is_possible(seen, at)
    )
    assert len(now) == most
    assert is_possible(seen, {each.name: now[each.name].node if each.name in now else None for each in pods_of(seen)})


@pytest.mark.parametrize("wrong", [unchanged, everywhere], ids=["nothing-found", "nonsense-found"])
def test_what_was_there_before_is_kept_when_the_solver_is_of_no_use(wrong: Solve) -> None:
    seen = view(*HiddenSolution(2, pods=30, slack=(0,)).records())
    one_by_one = served(seen, unchanged)
    assert len(one_by_one) < 30
    assert served(seen, wrong) == one_by_one
    assert len(served(seen)) == 30


def test_one_more_urgent_pod_goes_before_two_others() -> None:
    """If those who came first move, zone a has volumes for either."""
    in_a = {ZONE: "a"}
    seen = view(
        node("n-a", zone="a"),
        node("n-b", zone="b"),
        *(volume(f"a{number}", zone="a") for number in range(4)),
        *(volume(f"b{number}", zone="b", size="11Gi") for number in range(3)),
        *(claim(f"{name}{number}") for name in ("first", "urgent", "late") for number in range(4)),
        *(pod(f"first-{number}", claims=(f"first{number}",), priority=9) for number in range(3)),
        pod("urgent", claims=[f"urgent{number}" for number in range(4)], node_selector=in_a, priority=5),
        pod("late-1", claims=("late0", "late1"), node_selector=in_a, priority=1),
        pod("late-2", claims=("late2", "late3"), node_selector=in_a, priority=1),
    )
    first = {f"first-{number}" for number in range(3)}
    assert set(served(seen, unchanged)) == first
    assert set(served(seen)) == {*first, "urgent"}


def test_pods_with_rules_about_others_stay_where_they_were_placed() -> None:
    """The second pod could be served only if the first moved, which keeps apart from its like."""
    seen = view(
        node("n-a", zone="a"),
        node("n-b", zone="b"),
        volume("a0", zone="a"),
        volume("b0", zone="b", size="11Gi"),
        claim("x"),
        claim("y"),
        pod("first", claims=("x",), priority=5, labels={"app": "web"}, constraints=APART),
        pod("second", claims=("y",), node_selector={ZONE: "a"}),
    )
    now = served(seen)
    assert set(now) == {"first"}
    assert chosen(now["first"]) == {"x": "a0"}


def test_cores_that_no_single_node_has_are_not_counted_on() -> None:
    """Zone a has four cores, but room for one pod of two: the other two of these have to share zone b."""
    small, large = ("s0", "s1"), ("l0", "l1", "l2")
    seen = view(
        node("n-a1", zone="a", allocatable={"cpu": "3"}),
        node("n-a2", zone="a", allocatable={"cpu": "1"}),
        node("n-b", zone="b", allocatable={"cpu": "4"}),
        *(volume(f"a{number}", zone="a", size="11Gi") for number in range(3)),
        *(volume(f"b{number}", zone="b") for number in range(3)),
        *(claim(name) for name in (*small, *large)),
        *(pod(name, claims=(name,), requests={"cpu": "1"}, priority=5) for name in small),
        *(pod(name, claims=(name,), requests={"cpu": "2"}) for name in large),
    )
    assert set(served(seen, unchanged)) == {*small, "l0", "l1"}
    assert set(served(seen)) == {*small, *large}


def test_no_more_pods_are_counted_on_than_the_cores_of_each_zone_suffice_for() -> None:
    """There are volumes for all four large pods; one zone has cores for two of them, the other for one."""
    gains: list[int] = []

    def noted(program: IntegerProgram, seconds: float, /) -> Solution:
        solution = without_a_clock(program, seconds)
        gains.append(gained(program, solution.values))
        return solution

    small, large = ("s0", "s1"), ("l0", "l1", "l2", "l3")
    seen = view(
        *(node(f"n-{zone}", zone=zone, allocatable={"cpu": "4"}) for zone in "ab"),
        *(volume(f"{zone}{number}", zone=zone) for zone in "ab" for number in range(6)),
        *(claim(name) for name in (*small, *large)),
        *(pod(name, claims=(name,), requests={"cpu": "1"}, priority=5) for name in small),
        *(pod(name, claims=(name,), requests={"cpu": "2"}) for name in large),
    )
    assert len(served(seen, noted)) == 5
    assert max(gains) == 3
