"""What the flags of `simulate` may say: numbers that a machine can bear, plugins and weights that there are."""

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from prebinder.errors import UsageError
from prebinder.nearest import did_you_mean
from scheduler.catalog import REGISTRY, default_data
from scheduler.config import HEAVIEST
from scheduler.profile import Profile, build
from scheduler.simulated_workload import Workload

MADE_UP: Final[Mapping[str, tuple[int, int, int, str]]] = {
    "nodes": (1, 100_000, 16, "default 16"),
    "pods": (1, 1_000_000, 2000, "default 2000"),
    "zones": (1, 10_000, 3, "default 3"),
    "volumes_per_node": (0, 1000, 2, "in its zone; default 2"),
}
"""Flag of a made-up cluster -> least, most, default, help. The most is what fits into some tens of gigabytes."""
MOST_WORKERS: Final = 10_000


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return what reads a flag's number between these, or raises argparse.ArgumentTypeError."""

    def read(text: str) -> int:
        if not _is_between(least, most, text):
            raise argparse.ArgumentTypeError(f'expected a whole number from {least} to {most}, found "{text[:60]}"')
        return int(text)

    return read


def seed(text: str) -> int:
    """Read any whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected a whole number, found "{text[:60]}"') from None


def workload_of(arguments: argparse.Namespace) -> Workload:
    """Return the size of the made-up cluster."""
    said = ((name, getattr(arguments, name)) for name in MADE_UP)
    return Workload(**{name: MADE_UP[name][2] if number is None else number for name, number in said})


def refuse_size_of_dump(arguments: argparse.Namespace) -> None:
    """Raise UsageError when a dump is given and a size too: nothing is made up beside a dump."""
    said = [f"--{name.replace('_', '-')}" for name in MADE_UP if getattr(arguments, name) is not None]
    if said:
        raise UsageError(f"{said[0]} is for a made-up cluster; with --filename the cluster is the dump's")


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
