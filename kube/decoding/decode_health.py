"""Health reports about storage on claims and CSINodes, as records; strictly contained.

Other components write them, and the fields are alpha: a report that cannot be read counts as absent and is counted, and
never makes its object malformed. Fields: KEP-1432 as merged for Kubernetes 1.37 (`status.healthStatus` of claims,
`status.storageHealth` of CSINodes) and the annotations of csi-addons' Volume Condition Reporter, one for each node.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder

from kube.decoding.interning import shared, text
from kube.decoding.wire import RawPart, Text, Time, Wire
from kube.objects.reports import ClaimHealth, HealthCondition, NodeReport, StorageCondition, StorageReports

ADDONS_PREFIX: Final = "csiaddons.openshift.io/volumehealth."
"""Followed by the node's uid: kubernetes-csi-addons, docs/volume-condition.md."""

MAX_REPORTS: Final = 256
"""Reports read from one list, of which the API allows 16 conditions; the rest is ignored."""
MAX_TEXT_CHARACTERS: Final = 1024
"""Characters kept of a text: as many bytes as KEP-1432 allows in a message."""

S = TypeVar("S")
T = TypeVar("T")
_UNREADABLE: Final = (DecodeError, UnicodeDecodeError, RecursionError, ValueError)


class _HealthStatus(Wire):
    health_conditions: list[Raw] | None = None
    last_transition_time: Time = None


class _Condition(Wire):
    status: Text = None
    reason: Text = None
    message: Text = None
    volume_mode: Text = None
    access_mode: Text = None
    last_transition_time: Time = None


class _NodeStatus(Wire):
    storage_health: list[Raw] | None = None


class _StorageHealth(Wire):
    name: Text = None
    health_conditions: list[Raw] | None = None


class _Annotation(Struct, rename="camel"):
    state: str
    node: str = ""
    since: Time = None


_HEALTH_STATUS: Final = Decoder(_HealthStatus | None)
_CONDITION: Final = Decoder(_Condition)
_NODE_STATUS: Final = Decoder(_NodeStatus | None)
_STORAGE_HEALTH: Final = Decoder(_StorageHealth)
_ANNOTATION: Final = Decoder(_Annotation)
_ANNOTATIONS: Final = Decoder(dict[str, str | None])
_ADDONS_STATES: Final = ("healthy", "unhealthy")
_NEEDLE: Final = ADDONS_PREFIX.encode()
_NULL: Final = b"null"


def claim_health(status: RawPart, annotations: RawPart) -> ClaimHealth | None:
    """Read both kinds of reports; None if there are none."""
    native, written = _bytes(status), _bytes(annotations)
    if native == _NULL and _NEEDLE not in written:
        return None
    reading = _Reading()
    native_health = reading.value(native, _HEALTH_STATUS.decode)
    entries = native_health.health_conditions if native_health is not None else None
    readable = tuple(reading.each(entries, _condition))
    # An empty list reports a healthy volume; one that cannot be read reports nothing.
    conditions = None if native_health is None or (entries and not readable) else readable
    reports = reading.each(_of_addons(written), _node_report)
    health = ClaimHealth(
        conditions=conditions,
        since=native_health.last_transition_time if native_health else None,
        nodes=tuple(sorted(reports, key=lambda report: report.node)),
        unreadable=reading.unreadable,
    )
    return shared(health)


def storage_reports(status: RawPart) -> StorageReports | None:
    """Return what a CSINode's `status` reports about the storage of its drivers; None if nothing."""
    raw = _bytes(status)
    if raw == _NULL:
        return None
    reading = _Reading()
    node_status = reading.value(raw, _NODE_STATUS.decode)
    conditions: list[StorageCondition] = []
    for health in reading.each(node_status.storage_health if node_status else None, _storage_health):
        conditions += reading.each(health.health_conditions, partial(_storage_condition, driver=health.name or ""))
    return StorageReports(tuple(conditions), reading.unreadable) if conditions or reading.unreadable else None


class _Reading:
    """Reads reports individually, and counts those that it cannot read."""

    def __init__(self) -> None:
        self.unreadable = 0

    def value(self, raw: S, read: Callable[[S], T]) -> T | None:
        try:
            return read(raw)
        except _UNREADABLE:
            self.unreadable += 1
            return None

    def each(self, parts: Iterable[S] | None, read: Callable[[S], T]) -> list[T]:
        values = [self.value(part, read) for part in islice(parts or (), MAX_REPORTS)]
        return [value for value in values if value is not None]


def _condition(raw: Raw) -> HealthCondition:
    condition = _CONDITION.decode(raw)
    return HealthCondition(_status(condition), text(_short(condition.reason)), _short(condition.message))


def _storage_health(raw: Raw) -> _StorageHealth:
    storage = _STORAGE_HEALTH.decode(raw)
    if not storage.name:
        raise ValueError("storage health without a driver name")
    return storage


def _storage_condition(raw: Raw, driver: str) -> StorageCondition:
    condition = _CONDITION.decode(raw)
    return StorageCondition(
        driver=text(driver),
        status=_status(condition),
        reason=text(_short(condition.reason)),
        message=_short(condition.message),
        volume_mode=text(condition.volume_mode),
        access_mode=text(condition.access_mode),
        since=condition.last_transition_time,
    )


def _node_report(annotation: tuple[str, str]) -> NodeReport:
    key, value = annotation
    report = _ANNOTATION.decode(value)
    if report.state not in _ADDONS_STATES:
        raise ValueError(f"state {report.state!r}")
    return NodeReport(
        text(_short(report.node) or key.removeprefix(ADDONS_PREFIX)), report.state == "healthy", report.since
    )


def _of_addons(annotations: bytes) -> Iterable[tuple[str, str]]:
    if _NEEDLE not in annotations:
        return ()
    entries = sorted(_ANNOTATIONS.decode(annotations).items())
    return [(key, value or "") for key, value in entries if key.startswith(ADDONS_PREFIX)]


def _status(condition: _Condition) -> str:
    if not condition.status:
        raise ValueError("condition without a status")
    return text(condition.status)


def _short(content: str | None) -> str:
    return (content or "")[:MAX_TEXT_CHARACTERS]


def _bytes(part: RawPart) -> bytes:
    return bytes(part) if isinstance(part, Raw) else _NULL
