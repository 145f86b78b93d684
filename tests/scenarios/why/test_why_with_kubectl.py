"""`why` and the real kubectl: as its plugin, and with its names piped into it."""

import asyncio
import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.scenarios.environment.documents import IMMEDIATE, claim, claim_spec, pod, pod_spec
from tests.scenarios.environment.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_as_a_plugin_of_kubectl(own_world: World) -> None:
    """`kubectl pvc-why` runs the installed executable, and kubectl completes its flags and objects by the other."""
    world = own_world
    now = await world.storage_class(None, "now", binding=IMMEDIATE)
    await world.admin.create(claim(world.namespace, "data", claim_spec(f"{now}w")))
    code, out = await kubectl(world, "pvc-why", "pvc/data", "-n", world.namespace)
    assert code == 3
    assert "· StorageClassNotFound" in out
    code, out = await kubectl(world, "pvc-why", "-n", world.namespace, "-o", "name")
    assert (code, out) == (3, "persistentvolumeclaim/data\n")
    code, out = await kubectl(world, "__complete", "pvc-why", "--all")
    assert code == 0
    assert out.splitlines()[0].startswith("--all-namespaces")
    assert ":4" in out.splitlines()


async def test_names_are_piped_into_kubectl(own_world: World) -> None:
    """Of one namespace all at once, and of several one line after another: each names its own."""
    world, name = own_world, own_world.name("typo")
    missing = claim_spec(world.name("no-such-class"))
    await world.admin.create(
        claim(world.namespace, name, missing),
        pod(world.namespace, name, pod_spec((name,))),
        claim("default", name, missing),
    )
    here = f"-n {world.namespace}"
    try:
        code, out = await shell(world, f"kubectl {here} get -o name $(pvc-prebinder why {here} -o name)")
        assert (code, out.split()) == (0, [f"pod/{name}"])
        why = f"pvc-prebinder why -A -o name | grep /{name}$"
        _, out = await shell(world, why)
        assert out.splitlines() == [f"{here} pod/{name}", f"-n default persistentvolumeclaim/{name}"]
        code, out = await shell(world, f"{why} | xargs -r -L1 kubectl get -o name")
        assert (code, out.split()) == (0, [f"pod/{name}", f"persistentvolumeclaim/{name}"])
    finally:
        await world.admin.delete("PersistentVolumeClaim", name, "default")


async def kubectl(world: World, *arguments: str) -> tuple[int, str]:
    return await shell(world, shlex.join(("kubectl", *arguments)))


async def shell(world: World, command: str) -> tuple[int, str]:
    """Run a command with the cluster's kubectl, and the executables of this installation, on its path."""
    places = (Path(sys.executable).parent, world.cluster.kubectl.parent)
    path = os.pathsep.join((*map(str, places), os.environ["PATH"]))
    environment = {**os.environ, "KUBECONFIG": str(world.cluster.kubeconfig), "PATH": path}
    process = await asyncio.create_subprocess_shell(
        command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()
