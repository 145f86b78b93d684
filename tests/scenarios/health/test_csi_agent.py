"""An agent beside the driver publishes how volumes are, and a controller without any way to the driver goes by that."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from devcluster.driver.health import VolumeFault
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.drivers import Directories, start_directories
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.health.probed_volumes import (
    annotation,
    health,
    quarantined,
    reserve_another,
    volume_events,
    volumes,
)
from tests.scenarios.processes.agent import agent_account, start_agent
from tests.scenarios.processes.controller import Controller, start_controller
from tests.scenarios.processes.proxy import Call, Fault, Proxy, writes_of

LED = "leader_election_master_status"


def lease_of(driver: Directories) -> str:
    return f"pvc-prebinder-csi-agent-{driver.driver.driver_name}"


@asynccontextmanager
async def served(world: World) -> AsyncIterator[tuple[Directories, Controller]]:
    """A driver of the story's own with an agent beside it."""
    driver = await start_directories(world.cluster, f"{world.namespace}.csi.example")
    agent = await start_agent(world, driver.driver, await agent_account(world, driver.driver.driver_name))
    yield driver, agent
    await agent.stop()
    assert "Traceback" not in agent.log()
    await driver.driver.stop()


async def agent_event_reasons(world: World, name: str) -> list[str]:
    """The reasons of the agents' Events about an object in the story's namespace."""
    events = await world.admin.list("Event", world.namespace)
    own = [
        event
        for event in events
        if event.get("reportingController") == "scheduler.cloud.example/pvc-prebinder-csi-agent"
    ]
    return [event["reason"] for event in own if event["regarding"]["name"] == name]


async def has_published(world: World, name: str, state: str) -> Document:
    states = await eventually(partial(health, world), lambda states: states[name] == state, f"{name} is said {state}")
    assert states[name] == state
    return (await world.own_volumes())[name]


async def test_a_controller_without_endpoint_goes_by_what_the_agent_says(own_world: World) -> None:
    disks = await own_world.storage_class("prebind")
    async with served(own_world) as (driver, _):
        controller = await start_controller(own_world)
        made = await volumes(own_world, driver, disks, 2)
        first, second = made
        driver.break_volume(made[first], VolumeFault.GONE)
        volume = await has_published(own_world, first, "Inaccessible")
        assert annotation(own_world, volume, "health-source") == f"CSI driver {driver.driver.driver_name}"
        assert annotation(own_world, volume, "health-since")

        await own_world.pod("app", {"data": claim_spec(disks)}, gated=True)
        await own_world.all_run("app")
        assert await own_world.bound() == {"data": second}

        await own_world.pod("late", {"more": claim_spec(disks)}, gated=True)
        rejected = await own_world.noted("late", f"CSI driver {driver.driver.driver_name}, as published on the volume")
        assert rejected["reason"] == "StaticOnlyNoMatch"
        driver.recover(made[first])
        await own_world.all_run("late")
        assert (await own_world.bound())["more"] == first
        assert await volume_events(own_world, first) == ["VolumeConditionAbnormal", "VolumeConditionNormal"]

        driver.break_volume(made[second], VolumeFault.GONE)
        event_reasons = partial(agent_event_reasons, own_world, "data")
        await eventually(event_reasons, lambda reasons: reasons == ["VolumeConditionAbnormal"], "who has it is told")
        await controller.stop()


async def test_the_controller_quarantines_what_the_agent_finds_lost(own_world: World) -> None:
    disks = await own_world.storage_class("prebind")
    async with served(own_world) as (driver, _):
        controller = await start_controller(own_world, "--quarantine")
        made = await volumes(own_world, driver, disks, 2)
        async with own_world.scheduler_paused(), own_world.pv_controller_paused():
            first, second = await reserve_another(own_world, driver, disks, made)
        await eventually(partial(quarantined, own_world), lambda inside: inside == {first}, "the first is kept")
        await own_world.all_run("app")
        assert await own_world.bound() == {"data": second}
        await controller.stop()
        # Only a controller ends a quarantine: the agent says how the volume is, and no more.
        driver.recover(made[first])
        await has_published(own_world, first, "Healthy")
        assert await quarantined(own_world) == {first}
        await controller.start()
        await eventually(partial(quarantined, own_world), lambda inside: not inside, "it is free")
        assert "claimRef" not in (await own_world.own_volumes())[first]["spec"]
        await controller.stop()


async def test_agents_of_one_driver_take_turns_and_repeat_nothing(own_world: World) -> None:
    disks = await own_world.storage_class(None)
    async with served(own_world) as (driver, leader):
        ((name, handle),) = (await volumes(own_world, driver, disks, 1)).items()
        driver.break_volume(handle, VolumeFault.GONE)
        written = (await has_published(own_world, name, "Inaccessible"))["metadata"]["resourceVersion"]
        account = await agent_account(own_world, driver.driver.driver_name)
        other = await start_agent(own_world, driver.driver, account)
        assert (await leader.metric(LED), await other.metric(LED)) == (1, 0)

        await leader.kill()
        await own_world.admin.patch("Lease", lease_of(driver), {"spec": {"holderIdentity": ""}}, own_world.namespace)
        await eventually(
            partial(other.metric, "pvc_prebinder_health_sweep_volumes"), lambda done: done == 1, "the other has looked"
        )
        assert (await own_world.own_volumes())[name]["metadata"]["resourceVersion"] == written
        await leader.start()
        driver.recover(handle)
        await has_published(own_world, name, "Healthy")
        assert (await leader.metric(LED), await other.metric(LED)) == (0, 1)
        assert await volume_events(own_world, name) == ["VolumeConditionAbnormal", "VolumeConditionNormal"]
        await other.stop()


async def test_the_rights_that_the_component_grants_are_those_the_agent_uses(own_world: World) -> None:
    disks = await own_world.storage_class(None)
    driver = await start_directories(own_world.cluster, f"{own_world.namespace}.csi.example")
    account = await agent_account(own_world, driver.driver.driver_name)
    async with Proxy(own_world.cluster) as proxy:
        agent = await start_agent(own_world, driver.driver, proxy.kubeconfig_for(account))
        ((name, handle),) = (await volumes(own_world, driver, disks, 1)).items()
        # Somebody else was faster: the volume is read again.
        proxy.faults.append(Fault(about=writes_of("persistentvolumes"), status=409, reason="Conflict"))
        for state in ("Inaccessible", "Healthy", "Inaccessible"):
            driver.break_volume(handle, VolumeFault.GONE) if state != "Healthy" else driver.recover(handle)
            await has_published(own_world, name, state)

        async def used() -> set[tuple[str, str]]:
            return {use_of(call) for call in proxy.calls}

        role = await own_world.admin.get("Role", lease_of(driver), own_world.namespace)
        granted = rights(role) | rights(await own_world.admin.get("ClusterRole", "pvc-prebinder-csi-agent"))
        await eventually(used, lambda rights: rights == granted, f"each right is used, and no other: {sorted(granted)}")
        assert proxy.forbidden == []
        await agent.stop()
    await driver.driver.stop()


def rights(role: Document) -> set[tuple[str, str]]:
    return {(verb, plural) for rule in role["rules"] for verb in rule["verbs"] for plural in rule["resources"]}


def use_of(call: Call) -> tuple[str, str]:
    """The verb and the kind, as RBAC has them."""
    words = call.path.strip("/").split("/")
    words = words[2:] if words[0] == "api" else words[3:]
    plural, *name = words[2:] if words[0] == "namespaces" and len(words) > 2 else words
    if call.method == "GET":
        return ("watch" if call.watches else "get" if name else "list"), plural
    return {"POST": "create", "PATCH": "patch"}[call.method], plural
