"""A process of ours that is killed, stopped and started again; each time with a token of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import aiohttp

from devcluster.processes.component import Component

_ASK: Final = aiohttp.ClientTimeout(total=1)
_LEADS: Final = "leader_election_master_status{"


class Replica:
    """`renew` writes a kubeconfig with the next token: by it the audit log shows which run of the process wrote."""

    def __init__(self, component: Component, metrics: str, renew: Callable[[], Path]) -> None:
        self.component = component
        self._metrics = metrics
        self._renew = renew
        self.wanted = False
        """Whether it should be running: if it is not, it ended by itself."""

    @property
    def name(self) -> str:
        return self.component.name

    @property
    def ended_by_itself(self) -> bool:
        return self.wanted and not self.component.running

    async def start(self) -> None:
        """Start it if it is not running; does not wait until it is ready, which may need an API server."""
        if not self.component.running:
            self._renew()
            await self.component.start()
        self.wanted = True

    async def kill(self) -> None:
        self.wanted = False
        await self.component.kill()

    async def stop(self) -> None:
        self.wanted = False
        await self.component.stop()

    async def leads(self) -> bool:
        """Read its metrics; a process that does not respond counts as not leading."""
        try:
            async with (
                aiohttp.ClientSession(timeout=_ASK) as session,
                session.get(f"http://{self._metrics}/metrics") as answer,
            ):
                lines = (await answer.text()).splitlines()
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False
        return any(line.startswith(_LEADS) and float(line.rpartition(" ")[2]) == 1 for line in lines)

    def log(self) -> str:
        path = self.component.log_path
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
