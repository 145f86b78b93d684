import random

from scheduler.queue.heap import Heap


def test_the_least_comes_first_and_of_equals_the_earliest() -> None:
    heap: Heap[int, str] = Heap()
    for item, rank in (("b", 2), ("a", 1), ("c", 1)):
        heap.put(item, rank)
    heap.put("a", 1)
    assert drained(heap) == ["a", "c", "b"]
    assert heap.first() is None


def test_a_changed_rank_counts_and_a_discarded_item_is_gone() -> None:
    heap: Heap[int, str] = Heap()
    heap.put("a", 1)
    heap.put("b", 2)
    heap.put("a", 3)
    heap.discard("b")
    heap.discard("never")
    heap.put("b", 9)
    assert len(heap) == 2
    assert heap.first() == (3, "a")


def test_it_is_as_a_sorted_list_however_often_ranks_change() -> None:
    chance, heap, plain = random.Random(1), Heap[int, int](), dict[int, int]()
    for _ in range(5_000):
        item, rank = chance.randrange(40), chance.randrange(1_000)
        if chance.random() < 0.4:
            heap.discard(item)
            plain.pop(item, None)
        else:
            heap.put(item, rank)
            plain[item] = rank
        first = heap.first()
        assert (first is None) == (not plain)
        assert first is None or first[0] == min(plain.values()) == plain[first[1]]
    assert len(heap) == len(plain)


def drained(heap: Heap[int, str]) -> list[str]:
    order = []
    while (first := heap.first()) is not None:
        order.append(first[1])
        heap.discard(first[1])
    return order
