"""What the flags of `simulate` may say: numbers that a machine can bear, plugins and weights that there are."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from binder.reservation.contract import parse_time
from kube.configuration.nearest import did_you_mean
from prebinder.command_line.parameters import Reading
from prebinder.errors import UsageError
from scheduler.framework.config import HEAVIEST
from scheduler.framework.profile import Profile, build
from scheduler.plugins.registry import REGISTRY, default_data
from scheduler.simulator.simulated_workload import Workload

MADE_UP: Final[Mapping[str, tuple[int, int, int, str]]] = {
    "nodes": (1, 100_000, 16, "default 16"),
    "pods": (1, 1_000_000, 2000, "default 2000"),
    "zones": (1, 10_000, 3, "default 3"),
    "volumes_per_node": (0, 1000, 2, "in its zone; default 2"),
}
"""Flag of a made-up cluster -> least, most, default, help. The most is what fits into some tens of gigabytes."""
MOST_WORKERS: Final = 10_000


def _moment(text: str) -> datetime:
    found = parse_time(text)
    if found is None:
        raise ValueError(f'expected a time such as 2026-01-01T12:00:00Z, found "{text[:60]}"')
    return found


MOMENT: Final = Reading("time", _moment)
"""An RFC 3339 moment."""


def workload_of(sizes: Mapping[str, int | None]) -> Workload:
    """Return the size of the made-up cluster: what the user gave, else the default."""
    return Workload(**{name: MADE_UP[name][2] if number is None else number for name, number in sizes.items()})


def refuse_size_of_dump(sizes: Mapping[str, int | None]) -> None:
    """Raise UsageError when a dump is given and a size too: nothing is made up beside a dump."""
    given = [f"--{name.replace('_', '-')}" for name, number in sizes.items() if number is not None]
    if given:
        raise UsageError(f"{given[0]} is for a generated cluster; with --filename the cluster is the dump's")


def profile_of(plugins: str | None, weights: str | None) -> Profile:
    """Return the default profile with some plugins only and other weights. Raises UsageError for an unknown name."""
    data = default_data("simulated")
    if plugins is not None:
        chosen = [_known("--plugins", name, [*REGISTRY.filters, *REGISTRY.scores]) for name in _names(plugins)]
        if not chosen:
            raise UsageError("--plugins: expected NAME,..., found nothing")
        scores = {name: data.scores.get(name, 1) for name in chosen if name in REGISTRY.scores}
        data = replace(data, filters=tuple(name for name in data.filters if name in chosen), scores=scores)
    if weights is not None:
        scores = {name: weight for name, weight in {**data.scores, **_weights(weights)}.items() if weight}
        data = replace(data, scores=scores)
    return build(data, REGISTRY)


def check_known(flag: str, names: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the names, each once. Raises UsageError for one that is not known."""
    for name in names:
        if name not in known:
            raise UsageError(f'{flag}: there is no "{name}"{did_you_mean(name, known)}')
    return tuple(dict.fromkeys(names))


def _is_between(least: int, most: int, text: str) -> bool:
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    return digits and least <= int(text) <= most


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _weights(listed: str) -> Mapping[str, int]:
    weights: dict[str, int] = {}
    for pair in _names(listed):
        name, _, weight = pair.partition("=")
        if not _is_between(0, HEAVIEST, weight):
            raise UsageError(f"--weights {pair}: expected NAME=N, N a whole number from 0 to {HEAVIEST}")
        if _known("--weights", name, REGISTRY.scores) in weights:
            raise UsageError(f"--weights: {name} is given twice")
        weights[name] = int(weight)
    if not weights:
        raise UsageError("--weights: expected NAME=N,..., found nothing")
    return weights


def _known(flag: str, name: str, known: Collection[str]) -> str:
    if name in known:
        return name
    if name in REGISTRY.filters:
        raise UsageError(f"{flag}: {name} is a filter and has no weight; --plugins chooses filters")
    raise UsageError(
        f'{flag}: there is no plugin "{name}"{did_you_mean(name, known)} There are {", ".join(sorted(known))}'
    )
