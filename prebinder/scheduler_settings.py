"""Everything a user can set about the process of the standalone scheduler.

Plugins, weights and thresholds are not here but in the scheduler's configuration (`scheduler.config`), which is
replaced while it runs.
"""

from dataclasses import dataclass, field
from typing import Final

from binder.reservation import DEFAULT_PREFIX
from prebinder.settings import (
    ClusterSettings,
    LeaderElectionSettings,
    LoggingSettings,
    ServingSettings,
    refuse_bad_prefix,
)

LEASE: Final = "pvc-prebinder-scheduler"
"""Begins the names of the Leases of schedulers that were given none: each scheduler has one of its own."""


@dataclass(frozen=True, slots=True)
class SchedulingSettings:
    """Whose pods are scheduled, and how."""

    scheduler_names: tuple[str, ...] = ()
    """What pods have in spec.schedulerName. Empty: those of the configuration."""
    config: str | None = None
    """Path of a SchedulerConfiguration. None: the default profile for each name."""
    annotation_prefix: str = DEFAULT_PREFIX
    """Prefix of the annotations by which the controller reserves volumes."""

    def __post_init__(self) -> None:
        refuse_bad_prefix(self.annotation_prefix)


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """All of it."""

    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)
    leader_election: LeaderElectionSettings = field(default_factory=lambda: LeaderElectionSettings(name=LEASE))
    serving: ServingSettings = field(default_factory=ServingSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
