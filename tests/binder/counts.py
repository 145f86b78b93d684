"""The counts of binder's metrics ports, readable by tests."""

from collections import Counter
from typing import Any

from binder.matching.rejection import Reason
from binder.reporting.observe import ConflictKind
from binder.reservation.release import Cause
from binder.solver.solver_process import SolverFailure


class Counts:
    """All metrics ports, and the queues' observer, as counters."""

    def __init__(self) -> None:
        self.counted: Counter[tuple[Any, ...]] = Counter()

    def attempted(self, storage_class: str, binding_mode: str, *, success: bool) -> None:
        self.counted["attempted", storage_class, binding_mode, success] += 1

    def failed(self, storage_class: str, reason: Reason) -> None:
        self.counted["failed", storage_class, reason] += 1

    def reserved_after(self, storage_class: str, binding_mode: str, seconds: float) -> None:
        self.counted["reserved after", storage_class, binding_mode] += 1

    def bound(self, storage_class: str, binding_mode: str, seconds: float) -> None:
        self.counted["bound", storage_class, binding_mode] += 1

    def reserved(self, storage_class: str) -> None:
        self.counted["reserved", storage_class] += 1

    def released(self, storage_class: str, cause: Cause, held_seconds: float | None) -> None:
        self.counted["released", cause] += 1

    def conflicted(self, resource: str, kind: ConflictKind) -> None:
        self.counted["conflicted", resource, kind] += 1

    def garbage(self, field: str) -> None:
        self.counted["garbage", field] += 1

    def solver_failed(self, cause: SolverFailure) -> None:
        self.counted["solver failed", cause] += 1

    def added(self, depth: int) -> None: ...

    def retried(self) -> None: ...

    def started(self, depth: int, waited: float) -> None: ...

    def finished(self, worked: float) -> None: ...
