"""A StatefulSet with two volumes for each replica, and what is held for it."""

from tests.scenarios.environment.documents import ZONES, claim_spec, stateful_set
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

FLAGS = ("--hold-volumes", "--hold-max-share=1")
TEMPLATES = {"data": "2Gi", "log": "1Gi"}


def claims_of(*ordinals: int) -> set[str]:
    """The names of the claims of these replicas."""
    return {f"{template}-db-{ordinal}" for template in TEMPLATES for ordinal in ordinals}


async def disks_in_zones(world: World, each: int, mode: str = "prebind") -> str:
    """Create a class, and in every zone so many volumes for each template, no larger than needed."""
    disks = await world.storage_class(mode)
    await world.volumes(
        disks,
        *(
            world.volume(f"{template}-{zone}-{number}", disks, zone=zone, size=size)
            for zone in ZONES
            for template, size in TEMPLATES.items()
            for number in range(each)
        ),
    )
    return disks


async def running_set(world: World, disks: str, replicas: int, hold: int | None) -> None:
    """Create the set, and wait until its replicas run."""
    templates = {name: claim_spec(disks, size) for name, size in TEMPLATES.items()}
    document = stateful_set(world.namespace, "db", templates, replicas=replicas)
    if hold is not None:
        document["metadata"]["annotations"] = {f"{world.prefix}hold-replicas": str(hold)}
    await world.admin.create(document)
    await world.all_run(*(f"db-{number}" for number in range(replicas)))


async def want(world: World, hold: int | None) -> None:
    """Change for how many replicas volumes are held; None removes the annotation."""
    notes = {f"{world.prefix}hold-replicas": None if hold is None else str(hold)}
    await world.admin.patch("StatefulSet", "db", {"metadata": {"annotations": notes}}, world.namespace)


async def scale(world: World, replicas: int) -> None:
    await world.admin.patch("StatefulSet", "db", {"spec": {"replicas": replicas}}, world.namespace)


async def held(world: World) -> dict[str, str]:
    """Claim -> volume, of claims that do not exist: by claimRefs without uid, with the annotation of a hold."""
    return {
        volume["spec"]["claimRef"]["name"]: name
        for name, volume in (await world.own_volumes()).items()
        if f"{world.prefix}held-for" in volume["metadata"].get("annotations", {})
        and "uid" not in volume["spec"].get("claimRef", {"uid": ""})
    }


async def held_exactly(world: World, *ordinals: int) -> dict[str, str]:
    """Wait until the volumes of these replicas are held, and no others."""
    return await eventually(
        lambda: held(world), lambda held: held.keys() == claims_of(*ordinals), f"held for {ordinals}", 60
    )
