"""Everything a user can set about the process of the standalone scheduler.

Plugins, weights and thresholds are not here but in the scheduler's configuration (`scheduler.framework.config`), which
is replaced while it runs.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from binder.reservation.contract import DEFAULT_PREFIX
from kube.rules.duration import format_duration
from prebinder.config.annotation_prefix import AnnotationPrefix, reject_bad_prefix
from prebinder.config.feature_gates import FeatureGates
from prebinder.config.loopback import reject_reachable
from prebinder.config.settings import (
    NAME,
    NAME_EXPECTED,
    ClusterSettings,
    LeaderElectionSettings,
    LoggingSettings,
    ServingSettings,
    parse_address,
)

LEASE: Final = "pvc-prebinder-scheduler"
"""Prefix of the default name of a Lease: each scheduler has its own."""

_MIN_BIND_TIMEOUT: Final = timedelta(seconds=1)
_MAX_NAME_CHARACTERS: Final = 200
"""So that the name of the Lease has at most 253 characters."""


@dataclass(frozen=True, slots=True)
class SchedulingSettings(AnnotationPrefix):
    """Which pods are scheduled, and how."""

    scheduler_names: tuple[str, ...] = ()
    """Schedule pods with these spec.schedulerName. Empty: those of the configuration."""
    config: str | None = None
    """Path of a SchedulerConfiguration. None: the default profile for each name."""
    annotation_prefix: str = DEFAULT_PREFIX
    """Prefix of the annotations by which the controller reserves volumes."""
    bind_timeout: timedelta = timedelta(seconds=600)
    """How long a pod's claims may take to be bound on the chosen node before the pod is retried."""

    def __post_init__(self) -> None:
        if self.bind_timeout < _MIN_BIND_TIMEOUT:
            raise ValueError(f"bind timeout must be at least 1s, is {format_duration(self.bind_timeout)}")
        reject_bad_prefix(self.annotation_prefix)
        reject_bad_names(self.scheduler_names)


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """Where tools control the scheduler, see prebinder.control.server."""

    bind_address: str = "0"
    """As in ServingSettings, but loopback only."""
    token_file: str | None = None
    """File with the token that clients must present; created if missing. None: see prebinder.control.token."""

    def __post_init__(self) -> None:
        address = parse_address(self.bind_address)
        if address is not None:
            reject_reachable(*address)


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)
    control: ControlSettings = field(default_factory=ControlSettings)
    leader_election: LeaderElectionSettings = field(default_factory=lambda: LeaderElectionSettings(name=""))
    """Without a name the Lease is called after the schedulers."""
    serving: ServingSettings = field(default_factory=ServingSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
    feature_gates: FeatureGates = field(default_factory=FeatureGates)


def reject_bad_names(names: Collection[str]) -> None:
    """Raise ValueError, with a sentence for the user, if these cannot be names of schedulers."""
    for name in names:
        if not NAME.fullmatch(name):
            raise ValueError(f'expected {NAME_EXPECTED}, found "{name}"')
    if len(set(names)) < len(names):
        raise ValueError(f"expected each name once, found {', '.join(names)}")
    if len(".".join(names)) > _MAX_NAME_CHARACTERS:
        raise ValueError(f"expected names of {_MAX_NAME_CHARACTERS} characters together, found {len('.'.join(names))}")


def lease_name(settings: LeaderElectionSettings, schedulers: Collection[str]) -> str:
    """Return the name of the Lease: the user's, or one that no other scheduler has."""
    return settings.name or f"{LEASE}-{'.'.join(sorted(schedulers))}"
