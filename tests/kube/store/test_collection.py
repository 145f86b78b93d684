"""Lists, watches and our own writes may overtake each other; these are the orders that must not hurt."""

from collections.abc import Callable

import pytest

from kube.objects.model import Volume
from kube.store.collection import STEP, Collection
from kube.store.index import Index
from tests import builders


def collection(*held: Volume, version: str = "10") -> Collection[Volume]:
    volumes: Collection[Volume] = Collection()
    volumes.replace(held, version)
    return volumes


def pv(name: str = "pv", version: int = 10, **fields: str) -> Volume:
    return builders.volume(name, resource_version=version, **fields)  # type: ignore[arg-type]


def heard(volumes: Collection[Volume]) -> list[tuple[Volume | None, Volume | None]]:
    changes: list[tuple[Volume | None, Volume | None]] = []
    volumes.listeners.append(lambda old, new: changes.append((old, new)))
    return changes


def test_a_list_notifies_listeners_only_of_differences() -> None:
    same, old, gone, new, added = pv("same"), pv("changed", 5), pv("gone"), pv("changed", 11), pv("added", 12)
    volumes = collection(same, old, gone)
    changes = heard(volumes)
    volumes.replace([pv("same"), new, added], "12")
    assert sorted(changes, key=str) == sorted([(old, new), (None, added), (gone, None)], key=str)
    assert dict(volumes.items) == {"same": same, "changed": new, "added": added}


def test_objects_without_versions_are_compared() -> None:
    volumes = collection(pv(version=0, size="1Gi"))
    changes = heard(volumes)
    volumes.upsert(pv(version=0, size="1Gi"))
    volumes.upsert(pv(version=0, size="2Gi"))
    assert len(changes) == 1


Change = Callable[[Collection[Volume], Volume], None]
UPSERT: Change = lambda volumes, item: volumes.upsert(item)  # noqa: E731
REMEMBER: Change = lambda volumes, item: volumes.remember(item)  # noqa: E731
LIST: Change = lambda volumes, item: volumes.replace([item], "19")  # noqa: E731


@pytest.mark.parametrize("change", [UPSERT, REMEMBER, LIST], ids=["watch", "write", "list"])
def test_nothing_older_than_what_is_held_is_taken(change: Change) -> None:
    newer = pv(version=20, size="2Gi")
    volumes = collection(newer)
    changes = heard(volumes)
    change(volumes, pv(version=19, size="1Gi"))
    assert volumes.items["pv"] == newer
    assert changes == []


@pytest.mark.parametrize("change", [UPSERT, REMEMBER, LIST], ids=["watch", "write", "list"])
def test_the_older_namesake_is_not_taken(change: Change) -> None:
    recreated = pv(version=20, uid="second")
    volumes = collection(recreated)
    change(volumes, pv(version=19, uid="first"))
    assert volumes.items["pv"] == recreated


def test_a_recreated_object_takes_the_place_of_the_first() -> None:
    first, second = pv(version=10, uid="first"), pv(version=12, uid="second")
    volumes = collection(first)
    changes = heard(volumes)
    volumes.upsert(second)
    assert changes == [(first, second)]


@pytest.mark.parametrize("how", ["watch", "list"])
def test_a_late_response_does_not_bring_back_what_was_deleted(how: str) -> None:
    volumes = collection(pv(version=10))
    if how == "watch":
        volumes.upsert(pv(version=11))
        volumes.delete("pv")
    else:
        volumes.replace([], "15")
    volumes.remember(pv(version=11))
    assert not volumes.items


def test_what_was_deleted_and_made_again_is_there() -> None:
    volumes = collection(pv(version=10, uid="first"))
    volumes.delete("pv")
    volumes.upsert(pv(version=12, uid="second"))
    assert volumes.items["pv"].uid == "second"


def test_an_object_that_was_malformed_for_a_while_comes_back() -> None:
    volumes = collection(pv(version=10))
    volumes.delete("pv")
    volumes.upsert(pv(version=12))
    assert volumes.items["pv"].resource_version == 12


def test_a_list_older_than_our_write_does_not_undo_it() -> None:
    volumes = collection(pv(version=10))
    written = pv(version=25, size="2Gi")
    volumes.remember(written)
    volumes.replace([pv(version=10)], "20")
    assert volumes.items["pv"] == written
    volumes.replace([], "22")
    assert volumes.items["pv"] == written
    volumes.replace([], "25")
    assert not volumes.items


def test_a_server_restored_from_a_backup_is_believed() -> None:
    volumes = collection(pv(version=90, size="9Gi"), pv("gone", version=95), version="100")
    restored = pv(version=40, size="4Gi")
    volumes.replace([restored], "50")
    assert dict(volumes.items) == {"pv": restored}


def test_deleting_what_is_not_there_is_nothing() -> None:
    volumes = collection()
    changes = heard(volumes)
    volumes.delete("pv")
    assert changes == []


def test_no_late_response_brings_back_any_of_many_deleted_objects() -> None:
    volumes = collection(*(pv(f"pv-{number}") for number in range(10_000)))
    for number in range(10_000):
        volumes.delete(f"pv-{number}", 11 + number)
    for number in range(10_000):
        volumes.remember(pv(f"pv-{number}"))
    assert not volumes.items


def test_the_end_of_an_object_does_not_take_its_successor_away() -> None:
    volumes = collection(pv(version=10, uid="first"))
    second = pv(version=12, uid="second")
    volumes.remember(second)
    volumes.delete("pv", 11)
    assert volumes.items["pv"] == second
    volumes.upsert(second)
    assert volumes.items["pv"] == second


def test_a_list_overrides_all_that_it_covers() -> None:
    volumes = collection(pv(version=10, uid="first"))
    volumes.delete("pv", 19)
    listed = pv(version=9, uid="listed")
    volumes.replace([listed], "20")
    assert volumes.items["pv"] == listed
    volumes.upsert(pv(version=21, uid="listed"))
    volumes.replace([listed], "30")
    assert volumes.items["pv"] == listed


def test_a_read_overrides_a_deletion_that_it_was_sent_after() -> None:
    volumes = collection(pv(version=10))
    volumes.delete("pv", 19)
    volumes.remember(pv(version=12), as_of=18)
    assert not volumes.items
    volumes.remember(pv(version=12), as_of=19)
    assert volumes.items["pv"].resource_version == 12


def test_a_reader_keeps_the_state_of_its_moment() -> None:
    volumes = collection(pv())
    seen = volumes.items
    volumes.delete("pv")
    assert "pv" in seen


def test_listeners_see_the_change_when_they_are_called() -> None:
    volumes = collection()
    seen: list[bool] = []
    volumes.listeners.append(lambda _, new: seen.append(new is not None and new.name in volumes.items))
    volumes.upsert(pv())
    assert seen == [True]


def test_a_long_list_is_taken_in_steps() -> None:
    volumes: Collection[Volume] = Collection()
    steps = volumes.replace_in_steps((pv(f"pv-{number}") for number in range(2 * STEP + 1)), "1")
    next(steps)
    assert len(volumes.items) == STEP
    assert len(list(steps)) == 2
    assert len(volumes.items) == 2 * STEP + 1


def test_an_index_follows_and_forgets_words_without_objects() -> None:
    by_class: Index[Volume] = Index(lambda volume: (volume.storage_class or "",))
    volumes: Collection[Volume] = Collection((by_class,))
    volumes.replace([pv("b"), pv("a"), pv("c", storage_class="slow")], "10")
    assert dict(by_class.entries) == {"fast": ("a", "b"), "slow": ("c",)}
    volumes.upsert(pv("a", 11, storage_class="slow"))
    volumes.delete("b")
    assert dict(by_class.entries) == {"slow": ("a", "c")}
    volumes.upsert(pv("c", 12, storage_class="slow", size="2Gi"))
    assert dict(by_class.entries) == {"slow": ("a", "c")}
