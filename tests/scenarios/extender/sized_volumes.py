"""Pods whose claims each fit one volume a zone, so that none is given the volume that is reserved for another."""

from tests.scenarios.environment.documents import ZONES
from tests.scenarios.environment.world import World


async def sized_volumes(world: World, disks: str, count: int) -> dict[str, str]:
    """Create in each zone a volume of each of so many sizes; return pod -> the size of its claim."""
    sizes = {f"app-{number}": f"{number}Gi" for number in range(1, count + 1)}
    await world.volumes(
        disks,
        *(
            world.volume(f"{zone}-{size.lower()}", disks, zone=zone, size=size)
            for zone in ZONES
            for size in sizes.values()
        ),
    )
    return sizes
