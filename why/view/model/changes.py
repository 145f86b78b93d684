"""What changed between two views: the rows that are new or different, and the keys that are gone."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, TypeVar

from msgspec import Struct

from why.view.model.view import ClassRow, NodeRow, PageView, PendingRow, PodRow, UnreadKind, VolumeRow

Row = TypeVar("Row", VolumeRow, NodeRow, ClassRow, PendingRow, PodRow)

_TABLES: Final = ("volumes", "nodes", "classes", "pending", "pods")


class ViewChanges(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Rows to put, by table and key, and keys to take away, by table. `at` is the moment of the newer view."""

    at: datetime
    unreadable: tuple[UnreadKind, ...]
    stale: datetime | None
    volumes: Mapping[str, VolumeRow] = {}
    nodes: Mapping[str, NodeRow] = {}
    classes: Mapping[str, ClassRow] = {}
    pending: Mapping[str, PendingRow] = {}
    pods: Mapping[str, PodRow] = {}
    gone: Mapping[str, tuple[str, ...]] = {}


def changes_between(old: PageView, new: PageView) -> ViewChanges | None:
    """Return what turns the old view into the new one; None if nothing but the time differs."""
    gone = {table: lost for table in _TABLES if (lost := _lost(getattr(old, table), getattr(new, table)))}
    changes = ViewChanges(
        at=new.at,
        unreadable=new.unreadable,
        stale=new.stale,
        volumes=_different(old.volumes, new.volumes),
        nodes=_different(old.nodes, new.nodes),
        classes=_different(old.classes, new.classes),
        pending=_different(old.pending, new.pending),
        pods=_different(old.pods, new.pods),
        gone=gone,
    )
    same = not gone and not any(getattr(changes, table) for table in _TABLES)
    return None if same and (old.unreadable, old.stale) == (new.unreadable, new.stale) else changes


def _different(old: Mapping[str, Row], new: Mapping[str, Row]) -> dict[str, Row]:
    if old is new:
        return {}
    # Rows of objects that did not change are the same object, which spares most comparisons.
    return {key: row for key, row in new.items() if (held := old.get(key)) is not row and held != row}


def _lost(old: Mapping[str, object], new: Mapping[str, object]) -> tuple[str, ...]:
    return () if old is new else tuple(key for key in old if key not in new)
