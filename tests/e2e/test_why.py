"""What only a node that mounts can show: `why` names the real cause of a pod that does not start, and after what it
says to do the pod runs. And the page of `why --serve` in a pod, for callers with their own tokens.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import pytest

from devcluster.cluster import DevCluster
from devcluster.driver.volumes import create_volume
from tests.e2e.driver import NAME, NAMESPACE, Driver, installed_as, registered
from tests.e2e.installation import COMPONENTS, SECONDS, rolled_out, write_overlay
from tests.prebinder.view.served_view import Browser
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import IMMEDIATE, claim, claim_spec, pod, pod_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import SYSTEM
from tests.scenarios.processes.why_command import Asker, bound, looked_up, typed
from tests.scenarios.why.test_view import token_of

VIEW = "deployment/pvc-prebinder-view"
OF_THE_VIEW = "/api/v1alpha1/view"


@pytest.fixture
def asker(world: World, capsys: pytest.CaptureFixture[str]) -> Asker:
    return Asker(world, capsys, seconds=SECONDS)


async def pod_with_volume(world: World, volume: Document) -> None:
    """Create the volume, a claim that is bound to it, and a pod that uses it."""
    storage_class = volume["spec"]["storageClassName"]
    await world.volumes(storage_class, volume)
    await world.admin.create(claim(world.namespace, "data", claim_spec(storage_class)))
    await bound(world, "data")
    await world.admin.create(pod(world.namespace, "app", pod_spec(("data",))))


async def test_a_volume_that_the_driver_cannot_mount(world: World, driver: Driver, asker: Asker) -> None:
    disks = await world.storage_class("off", binding=IMMEDIATE)
    volume = world.name("lost")
    await pod_with_volume(world, world.volume("lost", disks, driver=NAME, zone="zone-a"))
    item = await asker.names("pod/app", "MountFailed")
    (evidence,) = item["evidence"]
    assert "FailedMount of kubelet" in evidence["object"]
    assert f"volume '{volume}' does not exist" in evidence["found"]
    await looked_up(world, item["next"][0])  # No workload: the test plays the driver.
    create_volume(driver.root, volume, 1024**3, {"topology.kubernetes.io/zone": "zone-a"})
    await world.all_run("app", seconds=SECONDS)
    await asker.names("pod/app", "Scheduled", exit_code=0)


async def test_a_driver_that_is_not_registered_on_the_node(
    world: World, real: DevCluster, driver: Driver, asker: Asker
) -> None:
    disks = await world.storage_class("off", binding=IMMEDIATE)
    try:
        await node_plugin_selects(real, {"none": "such"})
        await eventually(partial(registered, world.admin, NAME), lambda there: not there, "it is gone", SECONDS)
        await pod_with_volume(world, driver.volume(world, "disk", disks))
        item = await asker.names("pod/app", "DriverNotOnNode")
        assert item["causes"][-1] == {"kind": "Node", "name": "node-1", "says": f"without {NAME}"}
        assert "not found in the list of registered CSI drivers" in item["evidence"][-1]["found"]
        await typed(world, item["next"][0])
    finally:
        await node_plugin_selects(real, {"none": None})
    await world.all_run("app", seconds=SECONDS)
    await eventually(partial(registered, world.admin, NAME), bool, "it is registered again", SECONDS)


async def node_plugin_selects(cluster: DevCluster, labels: dict[str, str | None]) -> None:
    selector = {"spec": {"template": {"spec": {"nodeSelector": labels}}}}
    await cluster.run_kubectl(
        "-n", NAMESPACE, "patch", "daemonset", "node", "--type=merge", "--patch", json.dumps(selector)
    )


async def test_a_volume_that_the_driver_cannot_attach(world: World, real: DevCluster, asker: Asker) -> None:
    """The attach-detach controller asks for it and the kubelet waits; the test answers in place of the attacher."""
    name = "attached.csi.example"
    disks = await world.storage_class("off", binding=IMMEDIATE)
    async with installed_as(real, name, attached=True) as driver:
        await pod_with_volume(world, driver.volume(world, "disk", disks))
        attachment = await eventually(partial(attachment_of, world, name), bool, "it is to be attached", SECONDS)
        await answered(world, attachment, {"attachError": {"message": "the array has no free port"}})
        item = await asker.names("pod/app", "AttachFailed")
        assert "the array has no free port" in item["evidence"][0]["found"]
        await looked_up(world, item["next"][0])  # No workload: the test plays the driver.
        await answered(world, attachment, {"attached": True, "attachError": None})
        await world.all_run("app", seconds=SECONDS)
        await asker.names("pod/app", "Scheduled", exit_code=0)
        await real.run_kubectl("-n", world.namespace, "delete", "pod", "app")


async def test_a_node_that_takes_no_more_volumes(world: World, real: DevCluster, asker: Asker) -> None:
    """The kubelet publishes the limit that the node plugin returns; a pod that ends makes room."""
    disks = await world.storage_class("off", binding=IMMEDIATE)
    async with installed_as(real, "limited.csi.example", limit=1) as driver:
        await world.volumes(disks, *(driver.volume(world, word, disks) for word in ("one", "two")))
        await world.pod("first", {"one": claim_spec(disks)})
        await world.all_run("first", seconds=SECONDS)
        await world.pod("second", {"two": claim_spec(disks)})
        item = await asker.names("pod/second", "VolumeLimitReached")
        assert "1 of at most 1 attached" in item["evidence"][0]["found"]
        await typed(world, item["next"][0])
        await real.run_kubectl("-n", world.namespace, "delete", "pod", "first")
        await world.all_run("second", seconds=SECONDS)
        await real.run_kubectl("-n", world.namespace, "delete", "pod", "second")


async def attachment_of(world: World, driver: str) -> str:
    every = await world.admin.list("VolumeAttachment")
    return next((each["metadata"]["name"] for each in every if each["spec"]["attacher"] == driver), "")


async def answered(world: World, attachment: str, status: Document) -> None:
    await world.admin.patch("VolumeAttachment", attachment, {"status": {"attached": False, **status}}, "", "status")


async def test_the_page_in_a_pod_shows_what_the_callers_token_may_read(world: World, real: DevCluster) -> None:
    disks = await world.storage_class("off")
    await world.volumes(disks, world.volume("disk", disks))
    await world.admin.create(claim(world.namespace, "data", claim_spec(disks)))
    everything = await token_of(world, "operator", cluster_wide=True)
    inside = await token_of(world, "developer", cluster_wide=False)
    own = f"pvc/{world.namespace}/data"
    await real.run_kubectl("apply", "-k", str(write_overlay(real.directory, (*COMPONENTS, "view"))))
    await rolled_out(real, VIEW)
    async with page(real) as browser:

        async def view(header: dict[str, str], namespace: str = "") -> dict[str, Any]:
            answer = await browser.get(f"{OF_THE_VIEW}?namespace={namespace}", **header)
            assert answer.status == 200, answer.text
            return answer.document  # type: ignore[no-any-return]

        assert (await browser.get(OF_THE_VIEW)).status == 401
        shown = await eventually(partial(view, everything), lambda seen: own in seen["pending"], "all may be read")
        assert world.name("disk") in shown["volumes"]
        assert "node-1" in shown["nodes"]
        mine = await eventually(
            partial(view, inside, world.namespace), lambda seen: own in seen["pending"], "one namespace may be read"
        )
        assert mine["volumes"] == mine["nodes"] == {}
        why = f"/api/v1alpha1/why?kind=pvc&namespace={world.namespace}&name=data"
        assert "WaitForFirstConsumer" in (await browser.get(why, **everything)).document["text"]
    await real.run_kubectl("-n", SYSTEM, "delete", VIEW)


@asynccontextmanager
async def page(cluster: DevCluster) -> AsyncIterator[Browser]:
    """`kubectl port-forward`, as docs/view.md says, and a browser before it."""
    forward = await asyncio.create_subprocess_exec(
        cluster.kubectl,
        f"--kubeconfig={cluster.kubeconfig}",
        *("-n", SYSTEM, "port-forward", VIEW, ":10280"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert forward.stdout is not None
        line = (await forward.stdout.readline()).decode()
        port = int(line.split(" -> ")[0].rpartition(":")[2])
        async with aiohttp.ClientSession() as session:
            yield Browser(session, port)
    finally:
        forward.kill()
        await forward.wait()
