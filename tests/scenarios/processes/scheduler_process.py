"""The real command `pvc-prebinder scheduler` as a process: its flags, configuration, Lease, work and end."""

from tests.controller_process import Process
from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import HOSTNAME, claim_spec
from tests.scenarios.environment.scheduler_pods import pod
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import SYSTEM

ACCOUNT = LEASE = "pvc-prebinder-scheduler"
HEAD = "apiVersion: config.pvc-prebinder/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n"


def flags(world: World) -> list[str]:
    own = ["--name", world.namespace, "--annotation-prefix", world.prefix]
    return [*own, "--lease-namespace", SYSTEM, "--lease-name", LEASE]


async def leads(process: Process) -> bool:
    return await process.measured(f'leader_election_master_status{{name="{LEASE}"}} 1.0')


async def is_leading(process: Process) -> None:
    await eventually(lambda: leads(process), bool, "it leads", 120)


async def stopped(process: Process) -> str:
    """Stop it and return its log. It must end in order, and never have wanted what it may not do."""
    log = await ended(process)
    assert "Forbidden" not in log
    return log


async def ended(process: Process) -> str:
    code, log = await process.stop()
    assert code == 0, log
    assert "Traceback" not in log
    return log


async def event_about(world: World, namespace: str, reason: str, about: str) -> Document:
    def is_recorded(events: list[Document]) -> bool:
        return any((event["reason"], event["regarding"]["name"]) == (reason, about) for event in events)

    events = await eventually(
        lambda: world.admin.list("Event", namespace), is_recorded, f"an Event {reason} about {about}"
    )
    return next(event for event in events if (event["reason"], event["regarding"]["name"]) == (reason, about))


async def schedules_with_volumes(world: World) -> None:
    """A volume that is there, and one to be made: it is not provisioned, so the pod waits."""
    disks, made = await world.storage_class(None), await world.storage_class(None, "made", provisioner="none.example")
    await world.volumes(disks, world.volume("pv", disks, zone="zone-b"))
    claims = {"data": disks, "new": made}
    await world.admin.create(*(documents.claim(world.namespace, name, claim_spec(of)) for name, of in claims.items()))
    await world.admin.create(pod(world, "plain"), pod(world, "db", "data"), pod(world, "waits", "new"))
    await world.all_run("plain", "db")

    async def selected() -> str:
        claim = (await world.claims())["new"]
        return str(claim["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node", ""))

    await eventually(selected, bool, "a node is selected for the volume to be made")


async def preempts(world: World) -> None:
    """Two pods want the same port of the same node."""
    low, high = world.name("low"), world.name("high")
    for name, value in ((low, 1), (high, 2)):
        await world.admin.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
    for name, priority in (("victim", low), ("winner", high)):
        wanted = pod(world, name, priorityClassName=priority, nodeSelector={HOSTNAME: "node-1"})
        wanted["spec"]["containers"][0]["ports"] = [{"containerPort": 7777, "hostPort": 7777}]
        await world.admin.create(wanted)
        await world.all_run(name)
    assert "victim" not in await world.pods()
    await event_about(world, world.namespace, "Preempted", "victim")
