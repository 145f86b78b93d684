"""Asks `why` as a person does, and types what it says."""

import asyncio
import json
import os
import sys
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from prebinder.cli import main
from tests.scenarios.environment.waiting import SECONDS, eventually
from tests.scenarios.environment.world import World

Item = dict[str, Any]


class Asker:
    """Asks `why` as a person does, in one world."""

    def __init__(
        self,
        world: World,
        capsys: pytest.CaptureFixture[str],
        kubeconfig: str = "",
        seconds: float = SECONDS,
    ) -> None:
        """`seconds` is how long it may take until an answer is the one that a story waits for."""
        self._seconds = seconds
        self._world = world
        self._capsys = capsys
        self._flags = [
            f"--kubeconfig={kubeconfig or world.cluster.kubeconfig}",
            f"--annotation-prefix={world.prefix}",
            "--namespace",
            world.namespace,
        ]

    async def ask(self, *targets: str) -> tuple[int, list[Item]]:
        code = await asyncio.to_thread(main, ["why", "-o", "json", *targets, *self._flags])
        out, error = self._capsys.readouterr()
        return code, json.loads(out)["items"] if out.startswith("{") else [{"code": error}]

    async def code(self, target: str) -> tuple[int, str]:
        exit_code, (item,) = await self.ask(target)
        return exit_code, item["code"]

    async def names(self, target: str, code: str, exit_code: int = 3) -> Item:
        """Wait until the answer has this code, and return it."""
        expected = (exit_code, code)
        await eventually(partial(self.code, target), lambda seen: seen == expected, f"{target}: {code}", self._seconds)
        _, (item,) = await self.ask(target)
        return item


async def typed(world: World, command: str) -> str:
    """Type a command, as it stands, into a shell, and return its output."""
    code, output = await _run(world, command)
    assert code == 0, f"{command}: {output}"
    return output


async def looked_up(world: World, command: str) -> str:
    """Type a command that searches for something, and return its output: that of grep is empty if nothing matches."""
    return (await _run(world, command))[1]


async def _run(world: World, command: str) -> tuple[int | None, str]:
    path = (str(world.cluster.kubectl.parent), str(Path(sys.executable).parent), os.environ["PATH"])
    environment = {**os.environ, "KUBECONFIG": str(world.cluster.kubeconfig), "PATH": os.pathsep.join(path)}
    process = await asyncio.create_subprocess_shell(
        command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def bound(world: World, name: str) -> None:
    """Wait until the claim is bound; it is touched now and again, for else the PV controller looks every 15 s only."""
    touches = count()

    async def look() -> dict[str, str]:
        labels = {"metadata": {"labels": {"touched": str(next(touches))}}}
        await world.admin.patch("PersistentVolumeClaim", name, labels, world.namespace)
        return await world.bound()

    await eventually(look, lambda bound: name in bound, f"{name} is bound")


async def reported(world: World, kind: str, name: str, reason: str, note: str, reporter: str) -> None:
    """Write an Event as this component does, which is not there."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    await world.admin.create(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": world.namespace, "generateName": f"{name}-"},
            "eventTime": now,
            "reportingController": reporter,
            "reportingInstance": reporter,
            "action": "Tried",
            "reason": reason,
            "type": "Warning",
            "note": note,
            "regarding": {"apiVersion": "v1", "kind": kind, "namespace": world.namespace, "name": name},
        }
    )
