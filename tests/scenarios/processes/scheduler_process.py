"""The real command `pvc-prebinder scheduler` as a process: its flags, its configuration, its Lease and its end."""

from tests.controller_process import Process
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
