"""The traces of a real controller on a real control plane, as a receiver by OTLP gets them."""

import json
from typing import Any

from tests.fakes.otlp_receiver import Receiver, otlp_receiver
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.drivers import endpoint_flag, start_directories
from tests.scenarios.environment.world import World
from tests.scenarios.health.probed_volumes import volumes
from tests.scenarios.processes.controller import Controller, start_controller


async def test_a_pod_leaves_one_trace_of_its_plan_its_probe_and_its_writes(own_world: World) -> None:
    world = own_world
    driver = await start_directories(world.cluster, f"{world.namespace}.csi.example")
    disks = await world.storage_class("prebind")
    await volumes(world, driver, disks, 2)
    async with otlp_receiver() as receiver:
        controller = await start_controller(
            world, endpoint_flag(driver.driver), f"--tracing-endpoint={receiver.endpoint}", "--log-format=json"
        )
        await world.pod("app", {"data": claim_spec(disks)}, gated=True)
        await world.all_run("app")
        await controller.stop()
    await driver.driver.stop()
    (write,) = receiver.named("write")
    tree = tree_of(receiver, write.trace_id)
    assert [name for name in tree if name not in {"plan", "probe", "write"}] == ["attempt"]
    assert tree["attempt"] == ["plan", "probe", "write"]
    assert tree["probe"] == ["probe volume"]
    assert next(name for name in tree["write"] if name.startswith("PATCH")) == "PATCH persistentvolumes"
    assert len(receiver.named("PATCH pods")) == 1  # The gate, once the claim is bound: another attempt.
    assert receiver.resources[0]["service.name"] == "pvc-prebinder"
    lines = lines_of(controller, write.trace_id.hex())
    assert lines
    assert {line["pod"] for line in lines if "pod" in line} <= {f"{world.namespace}/app"}


def tree_of(receiver: Receiver, trace: bytes) -> dict[str, list[str]]:
    """Return the names of the children of each span of a trace that has any, by its name, in order."""
    spans = [span for span in receiver.spans if span.trace_id == trace]
    children = {span.name: [child.name for child in receiver.below(span)] for span in spans}
    return {name: names for name, names in children.items() if names}


def lines_of(controller: Controller, trace: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in controller.log().splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("trace_id") == trace]
