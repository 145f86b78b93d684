import random

from scheduler.queue.heap import Heap


def test_the_least_comes_first_and_of_equals_the_earliest() -> None:
    ranking: Heap[int, str] = Heap()
    for item, rank in (("b", 2), ("a", 1), ("c", 1)):
        ranking.put(item, rank)
    ranking.put("a", 1)
    assert drained(ranking) == ["a", "c", "b"]
    assert ranking.first() is None


def test_a_changed_rank_counts_and_a_discarded_item_is_gone() -> None:
    ranking: Heap[int, str] = Heap()
    ranking.put("a", 1)
    ranking.put("b", 2)
    ranking.put("a", 3)
    ranking.discard("b")
    ranking.discard("never")
    ranking.put("b", 9)
    assert len(ranking) == 2
    assert ranking.first() == (3, "a")


def test_it_is_as_a_sorted_list_however_often_ranks_change() -> None:
    chance, ranking, plain = random.Random(1), Heap[int, int](), dict[int, int]()
    for _ in range(5_000):
        item, rank = chance.randrange(40), chance.randrange(1_000)
        if chance.random() < 0.4:
            ranking.discard(item)
            plain.pop(item, None)
        else:
            ranking.put(item, rank)
            plain[item] = rank
        first = ranking.first()
        assert (first is None) == (not plain)
        assert first is None or first[0] == min(plain.values()) == plain[first[1]]
    assert len(ranking) == len(plain)


def drained(ranking: Heap[int, str]) -> list[str]:
    found = []
    while (first := ranking.first()) is not None:
        found.append(first[1])
        ranking.discard(first[1])
    return found
