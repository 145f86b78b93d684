"""The history of a cluster: every version of every object of interest, in etcd's own order."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Object = dict[str, Any]

KINDS: Final = {
    "persistentvolumes": "PersistentVolume",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "pods": "Pod",
    "minions": "Node",
    "storageclasses": "StorageClass",
    "leases": "Lease",
    "statefulsets": "StatefulSet",
}
"""The segment of etcd's key after /registry/, and the kind kept below it."""


@dataclass(frozen=True, slots=True)
class Change:
    """One revision: `key` is `namespace/name` or `name`; `after` is None for a deletion.

    `at` is when the recorder saw it, seconds since the epoch. Objects are as stored: without a resourceVersion.
    """

    revision: int
    at: float
    kind: str
    key: str
    before: Object | None
    after: Object | None

    @property
    def object(self) -> Object:
        """The new version, or the last one of what was deleted."""
        return self.after or self.before or {}

    def line(self) -> str:
        """Return it as a line of a history file."""
        return json.dumps([self.revision, self.at, self.kind, self.key, self.after], separators=(",", ":"))


def kind_and_key(etcd_key: str) -> tuple[str, str] | None:
    """Split `/registry/pods/default/a` into kind and key; None for what is not kept."""
    parts = etcd_key.split("/")
    kind = KINDS.get(parts[2]) if len(parts) > 3 else None
    return None if kind is None else (kind, "/".join(parts[3:]))


class Linked:
    """Links each change to the version before it."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, str], Object] = {}

    def change(self, revision: int, at: float, kind: str, key: str, after: Object | None) -> Change:
        before = self._latest.get((kind, key))
        if after is None:
            self._latest.pop((kind, key), None)
        else:
            self._latest[kind, key] = after
        return Change(revision, at, kind, key, before, after)


def read(lines: Iterable[str]) -> Iterator[Change]:
    """Read the lines of a history file."""
    linked = Linked()
    for line in lines:
        yield linked.change(*json.loads(line))


def read_file(path: Path) -> list[Change]:
    """Read a history file."""
    with path.open(encoding="utf-8") as lines:
        return list(read(lines))
