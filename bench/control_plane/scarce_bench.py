"""(d) Pods with two or three claims each that compete for exactly as many zonal volumes as a hidden solution needs."""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Final

from bench.control_plane.documents import NAMESPACE, Document, claim, pod, volume
from bench.control_plane.stage import Stage, in_parallel, stage
from bench.control_plane.timeline import Timeline
from bench.progress import say
from bench.rows import Row
from devcluster.control_plane.nodes import DEFAULT_ZONES
from kube.objects.api_resource import CLAIMS, PODS

PODS_AT_ONCE: Final = 100
SEEDS: Final = (1, 2, 3)
PATIENCE: Final = 45.0
"""Seconds for all pods to be placed; those that are not by then are stuck."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """Pods by name with the sizes of their claims, and volumes that the hidden solution uses completely."""

    pods: dict[str, list[int]]
    volumes: list[Document]

    @classmethod
    def of(cls, seed: int, pods: int) -> "Puzzle":
        """Draw one: each pod has a zone in the solution, and for each of its claims there is a volume of its size."""
        rng = Random(seed)
        wanted: dict[str, list[int]] = {}
        volumes: list[Document] = []
        for number in range(pods):
            zone = rng.choice(DEFAULT_ZONES)
            sizes = [rng.randint(1, 10) for _ in range(rng.choice((2, 3)))]
            wanted[f"pod-{number:03}"] = sizes
            volumes += [volume(f"volume-{len(volumes) + n:04}", zone, size) for n, size in enumerate(sizes)]
        rng.shuffle(volumes)
        return cls(wanted, volumes)


@dataclass(frozen=True, slots=True)
class Outcome:
    placed: int
    partly: int
    """Pods that are not placed although some of their claims are bound."""


def run(quick: bool) -> list[Row]:
    """Measure three puzzles of 100 pods, ours twice and in-tree; quick: one of 10."""
    seeds, pods = (SEEDS[:1], 10) if quick else (SEEDS, PODS_AT_ONCE)
    return [row for seed in seeds for row in asyncio.run(_rows(seed, pods))]


async def _rows(seed: int, pods: int) -> list[Row]:
    puzzle = Puzzle.of(seed, pods)
    ours, theirs = await solve(puzzle, "complete"), await solve(puzzle, "")
    at_once = await solve(puzzle, "complete", before=True)
    what = f"{pods} pods, {len(puzzle.volumes)} claims, as many volumes, seed {seed}"
    return [
        Row(f"pods placed, ours, seed {seed}", ours.placed, "pods", f"{what}; complete, gate", at_least=theirs.placed),
        Row(f"pods holding a part, ours, seed {seed}", ours.partly, "pods", at_most=0),
        Row(
            f"pods placed that were there before our controller, seed {seed}",
            at_once.placed,
            "pods",
            f"{what}; complete, gate",
            at_least=pods,
        ),
        Row(f"pods holding a part of these, seed {seed}", at_once.partly, "pods", at_most=0),
        Row(f"pods placed, in-tree, seed {seed}", theirs.placed, "pods", what),
        Row(f"pods holding a part, in-tree, seed {seed}", theirs.partly, "pods"),
    ]


async def solve(puzzle: Puzzle, mode: str, *, before: bool = False) -> Outcome:
    """Let our controller, or without a mode Kubernetes alone, place the pods; the limits of Kubernetes are lifted.

    `before`: the pods are there before the controller, otherwise they come while it runs.
    """
    say(f"{len(puzzle.pods)} pods compete, {mode or 'in-tree'}")
    async with stage(lifted=True, pods=len(puzzle.pods)) as ready:
        await ready.add_volumes(puzzle.volumes)
        if mode and not before:
            await ready.start_controller(mode)
        timeline = Timeline(ready.api)
        async with timeline.following():
            await in_parallel(_create(ready, name, sizes, gated=bool(mode)) for name, sizes in puzzle.pods.items())
            if mode and before:
                await ready.start_controller(mode)
            await timeline.until(lambda seen: len(seen.placed) == len(puzzle.pods), PATIENCE)
    stuck = puzzle.pods.keys() - timeline.placed.keys()
    partly = [name for name in stuck if any(each.startswith(f"{name}-") for each in timeline.bound)]
    return Outcome(len(timeline.placed), len(partly))


async def _create(ready: Stage, name: str, sizes: list[int], *, gated: bool) -> None:
    names = [f"{name}-{number}" for number in range(len(sizes))]
    for each, size in zip(names, sizes, strict=True):
        await ready.api.create(CLAIMS, claim(each, size), NAMESPACE)
    await ready.api.create(PODS, pod(name, names, gated=gated), NAMESPACE)
