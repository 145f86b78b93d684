"""The agent as a sidecar of a driver's Deployment: both non-root, the socket between them in an emptyDir."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from devcluster.cluster import DevCluster
from devcluster.driver.health import VolumeFault
from devcluster.driver.volumes import break_volume, create_volume, make_well
from tests.e2e.installation import SECONDS, rolled_out
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import PREFIX, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import MANIFESTS

NAME: Final = "sidecar.csi.example"
NAMESPACE: Final = "sidecar-driver"
USER: Final = 65532
# It probes every other second. kustomize puts containers that it adds before the others.
OFTEN: Final = {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--health-sweep-interval=2s"}
_DRIVER: Final = Path(__file__).with_name("agent_driver.yaml")


async def test_a_volume_that_becomes_unhealthy_is_quarantined_until_it_recovers(world: World, real: DevCluster) -> None:
    disks = await world.storage_class("complete")
    lost, kept = world.name("a"), world.name("b")
    root = volumes_of_driver(real, lost, kept)
    async with driver_with_agent(real, OFTEN):
        await world.volumes(disks, *(world.volume(word, disks, driver=NAME, zone="zone-a") for word in ("a", "b")))

        break_volume(root, lost, VolumeFault.GONE)
        seen = await eventually(
            partial(annotations, world, lost), lambda seen: "quarantine" in seen, f"{lost} is quarantined", SECONDS
        )
        assert seen["health"] == "Inaccessible"
        assert seen["health-source"] == f"CSI driver {NAME}"
        await world.pod("app", {"data": claim_spec(disks)}, gated=True)
        assert await eventually(world.bound, lambda bound: bound, "the claim is bound", SECONDS) == {"data": kept}

        make_well(root, lost)
        os.chown(root / "volumes" / lost, USER, USER)
        await eventually(
            partial(annotations, world, lost), lambda seen: "quarantine" not in seen, f"{lost} is released", SECONDS
        )
        await world.pod("late", {"more": claim_spec(disks)}, gated=True)
        bound = await eventually(world.bound, lambda bound: len(bound) == 2, "the other claim is bound", SECONDS)
        assert bound == {"data": kept, "more": lost}


def volumes_of_driver(cluster: DevCluster, *handles: str) -> Path:
    """Make directories that the driver, which is not root, serves as volumes; return where."""
    root = cluster.node.volumes / NAME
    root.mkdir()
    for handle in handles:
        create_volume(root, handle, 1024**3)
    for path in (root, *root.rglob("*")):
        os.chown(path, USER, USER)
    return root


@asynccontextmanager
async def driver_with_agent(cluster: DevCluster, *changes: Document, name: str = NAME) -> AsyncIterator[None]:
    """`changes` are JSON patches of its Deployment."""
    overlay = str(write_agent_overlay(cluster.directory / f"agent-of-{name}", changes, name))
    await cluster.run_kubectl("create", "namespace", NAMESPACE)
    await cluster.run_kubectl("apply", "-k", overlay)
    await rolled_out(cluster, "deployment/controller", NAMESPACE)
    yield
    await cluster.run_kubectl("delete", "-k", overlay)
    await cluster.run_kubectl("delete", "namespace", NAMESPACE)


def write_agent_overlay(overlay: Path, changes: Sequence[Document], name: str) -> Path:
    """Write the kustomization of docs/csi-agent.md."""
    overlay.mkdir()
    (overlay / "driver.yaml").write_text(_DRIVER.read_text(encoding="utf-8").replace(NAME, name), encoding="utf-8")
    kustomization: Document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["driver.yaml"],
        "components": [os.path.relpath(MANIFESTS / "components" / "csi-agent", overlay)],
    }
    if changes:
        kustomization["patches"] = [{"target": {"kind": "Deployment"}, "patch": yaml.safe_dump(list(changes))}]
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return overlay


async def annotations(world: World, volume: str) -> dict[str, str]:
    """Return what we say on a volume, by the name without the prefix."""
    annotations = (await world.own_volumes())[volume]["metadata"].get("annotations", {})
    return {key.removeprefix(PREFIX): value for key, value in annotations.items() if key.startswith(PREFIX)}
