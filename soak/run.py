"""One soak: execute a schedule, let the cluster settle, check the record."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfile
from typing import Final

import aiohttp

from soak.faults import Faults, all_well
from soak.judge.cluster import Cluster
from soak.judge.driver import judge_driver, read_record
from soak.judge.history import Change
from soak.judge.logs import judge_log
from soak.judge.placement.commitments import judge_stuck
from soak.judge.remains import judge_remains
from soak.judge.replay import replay
from soak.judge.rules import Violation
from soak.judge.to_come.provisioning import judge_partly_provisioned
from soak.judge.writes import Authors, Parties, Party, Write, read
from soak.schedule import Operation, Schedule
from soak.stage.client import Document, Rejected
from soak.stage.driver import DRIVER_RECORD
from soak.stage.stage import Stage, staged
from soak.terrain import PREFIX
from soak.users import Users

QUIET_SECONDS: Final = 15.0
_QUIET_WITHIN: Final = 240.0
_LOOK: Final = 0.5
_TOLD_EVERY: Final = 30.0
_NOISE: Final = frozenset({"Lease", "events"})


_BROKEN: Final = PREFIX + "reserved-for-uid"
_CANARY: Final[Document] = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "canary", "annotations": {_BROKEN: "nobody"}},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "canary",
        "hostPath": {"path": "/canary"},
    },
}
"""A volume with a broken reservation, which a leader removes."""


@dataclass(slots=True)
class Outcome:
    """The result of a soak. `changes` and `authors` are the evidence."""

    schedule: Schedule
    directory: Path
    violations: list[Violation] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    states: int = 0
    own_writes: int = 0
    deeds: Counter[str] = field(default_factory=Counter)
    terms: int = 0
    changes: Sequence[Change] = ()
    authors: Authors = field(default_factory=lambda: Authors(()))


async def soak(plan: Schedule, directory: Path, say: Callable[[str], None]) -> Outcome:
    """Run a schedule in a fresh cluster; files go below `directory`."""
    outcome = Outcome(plan, directory)
    async with staged(plan.setting, directory) as stage:
        say(f"cluster started; {len(plan.operations)} operations, {len(plan.troubles)} faults to come")
        users, faults = Users(stage.client, stage.nodes, stage.operator, stage.driver), Faults(stage)
        telling = asyncio.create_task(_tell(plan, users, faults, say))
        outcome.violations += await _trouble(plan, users, faults, stage)
        telling.cancel()
        say("no more operations and faults; waiting for the cluster to become quiet")
        await _undisturbed(plan, stage)
        await users.finish_replacement()
        await _leader_at_work(stage, outcome)
        began = await _rest(stage, outcome)
        outcome.operations, outcome.rejected, outcome.faults = users.done, users.rejected, faults.done
        logs = _collect_logs(stage, directory)
        # Why something was not done is said in Events.
        with suppress(Rejected, aiohttp.ClientError, TimeoutError, OSError):
            (directory / "events.json").write_text(json.dumps(await stage.client.list("Event")), encoding="utf-8")
        rested = time.time()
    say(f"judging {len(stage.recorder.changes)} versions of objects")
    outcome.changes = stage.recorder.changes
    with stage.audit_log.open(encoding="utf-8", errors="replace") as lines:
        outcome.authors = Authors(read(lines, Parties()))
    _judge(outcome, logs, began, rested)
    return outcome


async def _tell(plan: Schedule, users: Users, faults: Faults, say: Callable[[str], None]) -> None:
    """Say how far it is, until cancelled."""
    start = time.monotonic()
    while True:
        await asyncio.sleep(_TOLD_EVERY)
        say(
            f"{time.monotonic() - start:.0f} of {plan.seconds:.0f} s: {users.done.total()} operations"
            f" ({users.rejected.total()} more were rejected, as expected under faults), {faults.done.total()} faults"
        )


async def _trouble(plan: Schedule, users: Users, faults: Faults, stage: Stage) -> list[Violation]:
    """Execute the five lanes concurrently; return the processes that ended by themselves."""
    start, ended = time.monotonic(), dict[str, Violation]()

    async def lane(operations: Sequence[Operation], do: Callable[[Operation], Awaitable[None]]) -> None:
        for operation in operations:
            await asyncio.sleep(start + operation.at - time.monotonic())
            await do(operation)

    async def crowd() -> None:
        async with asyncio.TaskGroup() as hands:
            for operation in plan.operations:
                await asyncio.sleep(start + operation.at - time.monotonic())
                hands.create_task(users.carry_out(operation))

    async def watch() -> None:
        while True:
            await asyncio.sleep(_LOOK)
            for replica in stage.processes:
                if replica.ended_by_itself and replica.name not in ended:
                    tail = replica.component.log_tail()
                    ended[replica.name] = Violation("no process exits unexpectedly", f"{replica.name}:\n{tail}", ())
                    await replica.start()
            if stage.pools is not None:
                await stage.pools.revive()
            await faults.revive()

    watching = asyncio.create_task(watch())
    async with asyncio.TaskGroup() as lanes:
        lanes.create_task(crowd())
        lanes.create_task(lane(plan.faults, faults.carry_out))
        lanes.create_task(lane(plan.network, faults.carry_out))
        lanes.create_task(lane(plan.driver, faults.carry_out))
        lanes.create_task(lane(plan.provisioner, faults.carry_out))
    watching.cancel()
    return list(ended.values())


async def _undisturbed(plan: Schedule, stage: Stage) -> None:
    """End all faults. A replica with one request a second would take minutes for what is left: it gets the usual
    rate.
    """
    slow = plan.setting.slow_replica
    if slow is not None:
        replica = stage.replicas[slow]
        await replica.kill()
        replica.component.command = [word for word in replica.component.command if "--kube-api-" not in word]
    await all_well(stage)


async def _leader_at_work(stage: Stage, outcome: Outcome) -> None:
    """Wait until a leader has cleaned up a canary: a cluster that is quiet because it has no leader has not settled."""
    await stage.client.create(_CANARY)
    deadline = time.monotonic() + _QUIET_WITHIN
    while time.monotonic() < deadline:
        canary = await stage.client.get("PersistentVolume", _CANARY["metadata"]["name"])
        if _BROKEN not in canary["metadata"].get("annotations", {}):
            return
        await asyncio.sleep(_LOOK)
    outcome.violations.append(
        Violation("rest", f"no leader removed {_BROKEN} from volume canary in {_QUIET_WITHIN:.0f} s", ())
    )


async def _rest(stage: Stage, outcome: Outcome) -> float:
    """Wait until nothing has changed for QUIET_SECONDS; return since when, by the wall clock."""
    deadline = time.monotonic() + _QUIET_WITHIN
    recorder = stage.recorder
    while time.monotonic() < deadline:
        still = time.monotonic() - max(recorder.changed_at, deadline - _QUIET_WITHIN)
        if still >= QUIET_SECONDS:
            return time.time() - still
        await asyncio.sleep(_LOOK)
    outcome.violations.append(
        Violation("rest", f"no {QUIET_SECONDS:.0f} s without a change", _latest(recorder.changes))
    )
    return time.time()


def _latest(changes: Sequence[Change]) -> tuple[int, ...]:
    return tuple(change.revision for change in changes if change.kind != "Lease")[-6:]


def _collect_logs(stage: Stage, directory: Path) -> dict[str, str]:
    beside = [] if stage.pools is None else [stage.pools.provisioner, stage.pools.driver]
    for component in (*stage.cluster.components(), *beside):
        copyfile(component.log_path, directory / component.log_path.name)
    logs = {replica.name: replica.log() for replica in stage.processes} | {"replace": stage.operator.log()}
    for name, text in logs.items():
        (directory / f"{name}.log").write_text(text, encoding="utf-8")
    return logs


def _judge(outcome: Outcome, logs: dict[str, str], quiet_since: float, now: float) -> None:
    judged = replay(outcome.changes, outcome.authors)
    outcome.states, outcome.own_writes = judged.states, judged.own_writes
    outcome.deeds, outcome.terms = judged.deeds, judged.terms
    outcome.violations += judged.violations
    with (outcome.directory / DRIVER_RECORD).open(encoding="utf-8") as lines:
        outcome.violations += judge_driver(outcome.changes, outcome.authors, read_record(lines))
    outcome.violations += judge_rest(judged.cluster, outcome.authors.writes, quiet_since, now)
    for name, text in logs.items():
        outcome.violations += judge_log(name, text)


def judge_end(cluster: Cluster, now: float) -> list[Violation]:
    """Check the final state."""
    return [*judge_remains(cluster, now, "annotate"), *judge_stuck(cluster), *judge_partly_provisioned(cluster, now)]


def judge_rest(cluster: Cluster, writes: Sequence[Write], quiet_since: float, now: float) -> list[Violation]:
    """Check the final state, and that none of ours wrote since it was quiet."""
    violations = judge_end(cluster, now)
    late = [
        write
        for write in writes
        if write.party is not Party.OTHER and write.kind not in _NOISE and quiet_since + 1 < write.received < now
    ]
    violations += [Violation("no write while it is quiet", str(write), (write.revision,)) for write in late]
    return violations
