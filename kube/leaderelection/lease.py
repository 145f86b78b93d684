"""Who may hold a Lease: the rules of client-go's leader election, as a pure function.

Clocks of different machines are never compared: a Lease counts as abandoned when this process has seen no change of it
for its duration, by its own monotonic clock.
"""

from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any, Final

import msgspec

from kube.clock import micro_time

_MAX_TRANSITIONS: Final = 2**31 - 1
"""spec.leaseTransitions is an int32: one more, and the API server rejects every attempt to acquire the Lease."""

MAX_DURATION_SECONDS: Final = 60.0
"""Seconds: the policies of manifests/ permit no Lease of ours that lasts longer."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Seconds. A holder that has not renewed within `renew_deadline` stops working; others wait for `duration`.

    The difference is the margin in which a request already in flight must end. `retry` is the pause between two
    attempts of either side.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry > 0:
            raise ValueError(f"expected lease duration > renew deadline > retry > 0, got {self}")


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease as stored. `holder` is empty if it was released; `duration` is in seconds, as the holder wrote it."""

    resource_version: str
    holder: str
    duration: float
    transitions: int
    renewed: str


@dataclass(frozen=True, slots=True)
class Observed:
    """A record, and our monotonic time when it was first seen in this form."""

    record: LeaseRecord
    since: float


@dataclass(frozen=True, slots=True)
class Acquire:
    """Acquire the Lease. `transitions` is the number to write, one more than the last holder's, or 0 after the largest
    that a Lease can have.
    """

    transitions: int


@dataclass(frozen=True, slots=True)
class Renew:
    """The Lease is ours: write the present time."""

    transitions: int


@dataclass(frozen=True, slots=True)
class StandBy:
    """Another process holds it, and may do so for `seconds` more as far as is known."""

    holder: str
    seconds: float


def decide(observed: Observed | None, me: str, now: float) -> Acquire | Renew | StandBy:
    """Decide what to do about a Lease. `now` is monotonic; None means that there is no Lease object yet."""
    if observed is None:
        return Acquire(transitions=0)
    record = observed.record
    if record.holder == me:
        return Renew(record.transitions)
    left = observed.since + record.duration - now
    if record.holder and left > 0:
        return StandBy(record.holder, left)
    return Acquire(record.transitions + 1 if record.transitions < _MAX_TRANSITIONS else 0)


def observe(before: Observed | None, record: LeaseRecord, now: float) -> Observed:
    """Record an observation; the time counts from the last change."""
    return before if before is not None and before.record == record else Observed(record, now)


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    renew_time: str | None = None


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str


class _Lease(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


def parse_lease(raw: bytes, timing: LeaseTiming) -> LeaseRecord:
    """Read a Lease object. Absent fields count as a released Lease of our own duration."""
    lease = msgspec.json.decode(raw, type=_Lease)
    spec = lease.spec
    return LeaseRecord(
        resource_version=lease.metadata.resource_version,
        holder=spec.holder_identity or "",
        duration=float(spec.lease_duration_seconds or timing.duration),
        transitions=spec.lease_transitions or 0,
        renewed=spec.renew_time or "",
    )


def held_spec(holder: str, transitions: int, now: datetime, timing: LeaseTiming, *, acquired: bool) -> dict[str, Any]:
    """Return the spec that acquires (`acquired`) or renews a Lease. `now` is UTC."""
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": ceil(timing.duration),
        "leaseTransitions": transitions,
        "renewTime": micro_time(now),
    }
    return {**spec, "acquireTime": micro_time(now)} if acquired else spec


def released_spec(now: datetime) -> dict[str, Any]:
    """Return the spec of a released Lease, as client-go writes it: the next holder need not wait."""
    return {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(now)}
