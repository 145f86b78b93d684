"""`pvc-prebinder reservations list` beside a controller: what is held, and what changes."""

import asyncio
import json
import sys
from typing import Any

import yaml

from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import start_controller


def command(world: World, *arguments: str) -> list[str]:
    access = [f"--kubeconfig={world.cluster.kubeconfig}", f"--annotation-prefix={world.prefix}"]
    return [sys.executable, "-m", "prebinder.cli", "reservations", "list", *arguments, *access]


async def listed(world: World, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(*command(world, *arguments), stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def next_row(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        row: dict[str, Any] = json.loads(await process.stdout.readline())
    return row


async def test_a_reservation_is_listed_from_its_making_to_its_end(own_world: World) -> None:
    world = own_world
    assert await listed(world) == "Nothing is reserved.\n"
    disks = await world.storage_class("prebind")
    await world.volumes(disks, world.volume("one", disks, zone="zone-a"))
    await start_controller(world)
    async with world.pv_controller_paused():
        await world.pod("app", {"data": claim_spec(disks)}, gated=True)
        await eventually(world.held, lambda held: set(held) == {"data"}, "the volume is committed")
        (row,) = yaml.safe_load(await listed(world, "-o", "yaml", "-n", world.namespace))["items"]
        assert (row["volume"], row["claim"]) == (world.name("one"), f"{world.namespace}/data")
        assert (row["pods"], row["mode"], row["zone"]) == ([f"{world.namespace}/app"], "prebind", "zone-a")
        assert (row["health"], row["status"]) == ("Unknown", "Held")
        assert row["since"] < row["expires"]
        header, _, line = (await listed(world)).splitlines()
        assert header.split()[:4] == ["VOLUME", "CLAIM", "POD", "MODE"]
        assert line.split()[:5] == [world.name("one"), f"{world.namespace}/data", "app", "prebind", "zone-a"]
        assert await listed(world, "-n", "elsewhere") == "Nothing is reserved for claims in namespace elsewhere.\n"
        process = await asyncio.create_subprocess_exec(
            *command(world, "-w", "-o", "json"), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            async with asyncio.timeout(60):
                first = await process.stdout.readuntil(b"\n}\n")
            assert [row["status"] for row in json.loads(first)["items"]] == ["Held"]
            await world.admin.delete("Pod", "app", world.namespace)
            while (row := await next_row(process))["status"] == "Held":
                assert row["pods"] == []
            assert (row["volume"], row["status"]) == (world.name("one"), "Gone")
        finally:
            process.terminate()
            await process.wait()
