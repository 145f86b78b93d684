"""How much memory the reports of one driver take: equal ones are kept once, and their sum is bounded.

Most volumes of a driver have the same message and one of a few topologies, so a driver that works has room for some
hundred thousand volumes.
"""

from collections.abc import Iterable
from dataclasses import replace
from sys import getsizeof
from typing import Final, TypeVar, cast

from csi.health.health import HealthRecord
from csi.health.report_source import TOO_LARGE
from csi.health.verdict import HealthState, Segment, Verdict

MAX_BYTES: Final = 8 * 1024 * 1024
"""Of texts and topologies of one driver."""
LEFT_OUT: Final = f"left out: what the driver reports of all its volumes exceeds {MAX_BYTES // 2**20} MiB"
_SEGMENT_BYTES: Final = 150
_LABEL_BYTES: Final = 64
"""What a segment, and a pair of key and value, take besides their texts."""

Part = str | tuple[Segment, ...]
"""A text or a topology."""
Kind = TypeVar("Kind", str, tuple[Segment, ...])


class ReportMemory:
    """The texts and topologies of a driver's reports."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes, self.size = max_bytes, 0
        self._held: dict[Part, tuple[Part, int]] = {}

    def fits(self, verdict: Verdict) -> bool:
        """Whether there is room for all parts of the verdict."""
        new = [part for part in (verdict.reason, verdict.message, verdict.topology) if part and part not in self._held]
        return not new or self.size + sum(map(_bytes, new)) <= self._max_bytes

    def fitted(self, verdict: Verdict) -> Verdict:
        """Return the verdict with parts that are held already, or without those for which there is no room.

        A volume is not called healthy if its topology had to be left out: nothing could contradict its node affinity.
        """
        if self.fits(verdict):
            return self._shared(verdict)
        if verdict.topology and verdict.state is HealthState.HEALTHY:
            return replace(verdict, state=HealthState.UNKNOWN, reason=TOO_LARGE, message=LEFT_OUT, topology=None)
        # Of unhealthy volumes the reason is a text of the driver too.
        reason = str(verdict.state) if verdict.unhealthy else verdict.reason
        return replace(verdict, reason=reason, message=LEFT_OUT, topology=None)

    def kept(self, verdict: Verdict) -> Verdict:
        """Return the fitted verdict, and hold its parts for good."""
        verdict = self.fitted(verdict)
        self.hold(_parts_of(verdict))
        return verdict

    def hold(self, parts: Iterable[Part]) -> None:
        """Count parts that are kept."""
        for part in parts:
            known, count = self._held.get(part, (part, 0))
            self._held[part] = known, count + 1
            if not count:
                self.size += _bytes(part)

    def release(self, parts: Iterable[Part]) -> None:
        """The opposite of `hold`."""
        for part in parts:
            known, count = self._held[part]
            if count > 1:
                self._held[part] = known, count - 1
            else:
                del self._held[part]
                self.size -= _bytes(part)

    def _shared(self, verdict: Verdict) -> Verdict:
        reason, message = self._one(verdict.reason), self._one(verdict.message)
        topology = self._one(verdict.topology) if verdict.topology else verdict.topology
        if reason is verdict.reason and message is verdict.message and topology is verdict.topology:
            return verdict
        return replace(verdict, reason=reason, message=message, topology=topology)

    def _one(self, part: Kind) -> Kind:
        known = self._held.get(part)
        return part if known is None else cast("Kind", known[0])


def parts_of(record: HealthRecord) -> Iterable[Part]:
    """Return the parts that a record keeps."""
    findings = [finding for finding in (record.finding, record.silence) if finding is not None]
    texts = [text for finding in findings for text in (finding.reason, finding.message)]
    return [*filter(None, texts), *_parts_of(record.last)]


def _parts_of(verdict: Verdict) -> Iterable[Part]:
    return filter(None, (verdict.reason, verdict.message, verdict.topology))


def _bytes(part: Part) -> int:
    if isinstance(part, str):
        return getsizeof(part)
    return sum(
        _SEGMENT_BYTES + sum(_LABEL_BYTES + getsizeof(key) + getsizeof(value) for key, value in segment.labels)
        for segment in part
    )
