"""`pvc-prebinder replace` on a node that mounts: a disk is lost under a running pod, and its driver says so; the pod
comes back on another disk, where the application restores its data; later the disk is found again, and given back.
"""

from functools import partial
from pathlib import Path

import pytest

from devcluster.cluster import DevCluster
from devcluster.driver.volumes import data_directory
from tests.e2e.driver import Driver, installed_as
from tests.e2e.installation import SECONDS
from tests.e2e.test_agent import OFTEN, driver_with_agent
from tests.e2e.volumes.writers import logs_become, running
from tests.scenarios.environment.documents import Document, claim, claim_spec, stateful_set
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.holds.sets import scale
from tests.scenarios.processes.replace_command import run

NAME = "replaced.csi.example"
# By this it reports DataLoss, and not only that something is wrong.
SAYS_WHAT = {"op": "add", "path": "/spec/template/spec/containers/1/command/-", "value": "--generation=1.13"}
SHARED = ("ReadWriteMany",)
# An application that keeps a copy of what it writes, and restores it where its volume is empty.
SCRIPT = """
if [ -e /data/rows ]; then echo found
elif [ -e /backup/$HOSTNAME ]; then cp /backup/$HOSTNAME /data/rows; echo restored
else echo "rows of $HOSTNAME" > /data/rows; cp /data/rows /backup/$HOSTNAME; echo new
fi
cat /data/rows
echo done
exec sleep 100000
"""
LATER = "written after the backup\n"
GIVE_BACK = ("--give-back", "--abandon")
ONWARD = ("--yes", f"--timeout={SECONDS:.0f}s")


@pytest.mark.timeout(900)
async def test_a_lost_disk_is_replaced_and_given_back_when_it_is_found_again(world: World, real: DevCluster) -> None:
    disks = await world.storage_class("complete")
    async with installed_as(real, NAME) as driver, driver_with_agent(real, OFTEN, SAYS_WHAT, name=NAME):
        backup = driver.volume(world, "backup", disks, access_modes=SHARED)
        await world.volumes(disks, backup, *(driver.volume(world, f"disk-{number}", disks) for number in range(4)))
        await world.admin.create(*application(world.namespace, disks))
        for number in range(2):
            await logs_become(world, f"db-{number}", f"new\nrows of db-{number}\ndone\n")
        other = (await world.pods())["db-0"]["metadata"]["uid"]
        old = (await world.bound())["data-db-1"]
        with (files_of(driver, old) / "rows").open("a", encoding="ascii") as rows:
            rows.write(LATER)

        away = await lost(world, driver, old)
        await outcome(world, (0, "Finished"), *ONWARD)
        new = (await world.bound())["data-db-1"]
        assert new != old
        await logs_become(world, "db-1", "restored\nrows of db-1\ndone\n")
        assert (await kept(world))[old] == f"{world.namespace}/data-db-1"

        away.rename(files_of(driver, old))
        await scale(world, 1)
        await eventually(world.pods, lambda pods: "db-1" not in pods, "db-1 has ended", SECONDS)
        await outcome(world, (0, "Recoverable"), *GIVE_BACK)
        await outcome(world, (3, "db has to create claim data-db-1"), *GIVE_BACK, "--yes", "--timeout=0")
        await scale(world, 2)
        await outcome(world, (0, "Finished"), *GIVE_BACK, *ONWARD)
        assert (await world.bound())["data-db-1"] == old
        await logs_become(world, "db-1", f"found\nrows of db-1\n{LATER}done\n")
        assert await kept(world) == {new: f"{world.namespace}/data-db-1"}
        assert (await world.pods())["db-0"]["metadata"]["uid"] == other
        # While there is a driver that unmounts.
        await real.run_kubectl("-n", world.namespace, "delete", "statefulset", "db", "--cascade=foreground")


def application(namespace: str, storage_class: str) -> list[Document]:
    """Return a StatefulSet of two replicas, each with a disk of its own, and the claim of the volume for its copies."""
    copies = claim(namespace, "backup", claim_spec(storage_class, access_modes=SHARED))
    owner = stateful_set(namespace, "db", {"data": claim_spec(storage_class)}, replicas=2, gated=True)
    spec = owner["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "backup", "persistentVolumeClaim": {"claimName": "backup"}}]
    spec["containers"][0]["volumeMounts"].append({"name": "backup", "mountPath": "/backup"})
    return [copies, running(owner, SCRIPT)]


def files_of(driver: Driver, volume: str) -> Path:
    return data_directory(driver.root, volume)


async def lost(world: World, driver: Driver, volume: str) -> Path:
    """Take the disk away under its pod, and wait until that is proven; return where it is."""
    await outcome(world, (3, "proven to be lost"))
    away = files_of(driver, volume).rename(driver.root / f"away-{volume}")
    await outcome(world, (0, "reports DataLoss"))
    return away


async def outcome(world: World, expected: tuple[int, str], *flags: str) -> None:
    """Run the command for db-1 until it ends with this exit code and says this: drivers are probed now and again."""
    code, words = expected
    await eventually(
        partial(run, world, "db-1", *flags),
        lambda seen: seen[0] == code and words in seen[1],
        f"replace {' '.join(flags)} ends with {code}, and says {words}",
        SECONDS,
    )


async def kept(world: World) -> dict[str, str]:
    """Volume -> the claim whose data it keeps, of volumes that were replaced and are Released."""
    marks = {
        name: volume["metadata"].get("annotations", {}).get(f"{world.prefix}was-for", "")
        for name, volume in (await world.own_volumes()).items()
        if volume["status"]["phase"] == "Released"
    }
    return {name: mark.rpartition("/")[0] for name, mark in marks.items() if mark}
