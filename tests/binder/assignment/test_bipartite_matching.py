"""The matching that assignments rest on, against a search through all possibilities."""

from collections.abc import Sequence
from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st

from binder.assignment.bipartite_matching import BipartiteMatching

VOLUMES = 6
suitable = st.lists(st.integers(0, 2**VOLUMES - 1), min_size=1, max_size=4)
wishes = st.lists(st.integers(0, 3), max_size=6)


def matching(suits: Sequence[int]) -> BipartiteMatching:
    return BipartiteMatching(suits, [0] * len(suits), 2**VOLUMES - 1)


def state(bipartite: BipartiteMatching, suits: Sequence[int]) -> tuple[list[int], int]:
    return [bipartite.held(kind) for kind in range(len(suits))], bipartite.free


def can_hold(suits: Sequence[int], kinds: Sequence[int], volumes: Sequence[int]) -> bool:
    return any(
        all(suits[kind] >> volume & 1 for kind, volume in zip(kinds, order, strict=True))
        for order in permutations(volumes)
    )


def check(bipartite: BipartiteMatching, suits: Sequence[int], kinds: Sequence[int]) -> int:
    """Each kind holds as many suitable volumes as it has claims, none twice; return all that are held."""
    union, count = 0, 0
    for kind, suit in enumerate(suits):
        held = bipartite.held(kind)
        assert held & ~suit == 0
        assert held.bit_count() == kinds.count(kind)
        union, count = union | held, count + held.bit_count()
    assert union.bit_count() == count
    assert union & bipartite.free == 0
    assert union | bipartite.free == 2**VOLUMES - 1
    return union


@given(suits=suitable, kinds=wishes)
def test_as_many_claims_are_served_as_can_be_and_tightening_uses_the_least(suits: list[int], kinds: list[int]) -> None:
    bipartite = matching(suits)
    served: list[int] = []
    for kind in (kind for kind in kinds if kind < len(suits)):
        before = state(bipartite, suits)
        possible = any(can_hold(suits, [*served, kind], some) for some in combinations(range(VOLUMES), len(served) + 1))
        assert bipartite.add(kind) == possible
        if possible:
            served.append(kind)
        else:
            assert state(bipartite, suits) == before
    check(bipartite, suits, served)
    bipartite.tighten()
    least = min(
        sum(1 << volume for volume in some)
        for some in combinations(range(VOLUMES), len(served))
        if can_hold(suits, served, some)
    )
    # Taken from the smallest up, the set is also least when each volume outweighs all smaller ones together.
    assert check(bipartite, suits, served) == least
