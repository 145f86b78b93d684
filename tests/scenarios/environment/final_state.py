"""When a story is over for us: claims bound, pods run, and nothing of ours left on any object."""

from collections.abc import Iterable

from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

SECONDS = 120.0


async def settled(world: World, claims: Iterable[str], *pods: str) -> None:
    """Wait until these claims are bound, these pods run, and nothing of ours is left on any object."""
    wanted = set(claims)
    await eventually(
        world.bound, lambda bound: bound.keys() >= wanted, f"{world.namespace}: {wanted} are bound", SECONDS
    )
    await world.all_run(*pods, seconds=SECONDS)
    await clean(world)


async def clean(world: World) -> None:
    """Wait until nothing of ours is left on any object."""
    await eventually(lambda: traces(world), lambda traces: not traces, f"{world.namespace}: no trace of ours", SECONDS)


async def traces(world: World) -> list[str]:
    """Say what is left on objects: our annotations, and claimRefs of volumes that no claim is bound to."""
    volumes, claims = await world.own_volumes(), await world.claims()
    objects = [*volumes.values(), *claims.values()]
    traces = [
        f"{document['metadata']['name']}: {key}"
        for document in objects
        for key in document["metadata"].get("annotations", {})
        if key.startswith(world.prefix)
    ]
    bound = set((await world.bound()).values())
    for name, volume in volumes.items():
        if volume["spec"].get("claimRef") and name not in bound and volume["status"]["phase"] != "Released":
            traces.append(f"{name}: refers to {volume['spec']['claimRef']}")
    return traces
