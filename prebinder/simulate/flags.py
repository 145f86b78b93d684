"""The values that flags of `simulate` accept: sizes that a machine can handle, known plugins and weights."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final

from binder.reservation.contract import parse_time
from kube.configuration.nearest import did_you_mean
from prebinder.command_line.parameters import Reading
from prebinder.errors import UsageError
from scheduler.simulator.simulated_workload import Workload

MADE_UP: Final[Mapping[str, tuple[int, int, int, str]]] = {
    "nodes": (1, 100_000, 16, "default 16"),
    "pods": (1, 1_000_000, 2000, "default 2000"),
    "zones": (1, 10_000, 3, "default 3"),
    "volumes_per_node": (0, 1000, 2, "in its zone; default 2"),
}
"""Flag of a generated cluster -> minimum, maximum, default, help. The maximum fits into some tens of gigabytes."""
MAX_WORKERS: Final = 10_000


def _moment(text: str) -> datetime:
    moment = parse_time(text)
    if moment is None:
        raise ValueError(f'expected a time such as 2026-01-01T12:00:00Z, found "{text[:60]}"')
    return moment


MOMENT: Final = Reading("time", _moment)
"""An RFC 3339 moment."""


def workload_of(sizes: Mapping[str, int | None]) -> Workload:
    """Return the size of the generated cluster: what the user gave, else the default."""
    return Workload(**{name: MADE_UP[name][2] if number is None else number for name, number in sizes.items()})


def reject_size_of_dump(sizes: Mapping[str, int | None]) -> None:
    """Raise UsageError if both a dump and a size are given: with a dump nothing is generated."""
    given = [f"--{name.replace('_', '-')}" for name, number in sizes.items() if number is not None]
    if given:
        raise UsageError(f"{given[0]} is for a generated cluster; with --filename the cluster is the dump's")


def check_known(flag: str, names: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the names, each once. Raises UsageError for an unknown one."""
    for name in names:
        if name not in known:
            raise UsageError(f'{flag}: there is no "{name}"{did_you_mean(name, known)}')
    return tuple(dict.fromkeys(names))
