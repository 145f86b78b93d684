"""A real Prometheus that scrapes a story's processes every second. It is not built: Debian's package has it."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import pytest
import yaml

from devcluster.cluster import DevCluster
from devcluster.processes.component import Component
from devcluster.processes.ports import LOOPBACK, free_ports
from devcluster.processes.probes import answers_ok
from tests.scenarios.environment.waiting import eventually

PROGRAM: Final = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
needs_prometheus: Final = pytest.mark.skipif(
    PROGRAM is None, reason="no prometheus on PATH, nor in PROMETHEUS; Debian's prometheus has it"
)
WINDOW: Final = "10s"
"""A range of a query: some ten samples."""


class Prometheus:
    """A running Prometheus. `fired` are the names of the alerts that have fired, as far as they were waited for."""

    def __init__(self, component: Component, address: str, directory: Path) -> None:
        self.component = component
        self.fired: set[str] = set()
        self._url = f"http://{address}/api/v1"
        self._targets = directory / "targets.json"
        self._scraped: dict[str, list[str]] = {}

    @classmethod
    async def start(cls, cluster: DevCluster, directory: Path, groups: list[dict[str, Any]]) -> Self:
        """Start one with these groups of rules; it scrapes nothing yet."""
        (directory / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [
                {"job_name": "files", "file_sd_configs": [{"files": ["targets.json"], "refresh_interval": "1s"}]}
            ],
        }
        (directory / "targets.json").write_text("[]")
        (directory / "prometheus.yaml").write_text(yaml.safe_dump(config))
        address = f"{LOOPBACK}:{free_ports(1)[0]}"
        command: list[str | Path] = [Path(str(PROGRAM)), f"--config.file={directory / 'prometheus.yaml'}"]
        command += [f"--storage.tsdb.path={directory / 'data'}", f"--web.listen-address={address}"]
        component = await cluster.start_component(
            "prometheus", command, lambda: answers_ok(f"http://{address}/-/ready")
        )
        return cls(component, address, directory)

    async def scrape(self, job: str, *addresses: str) -> None:
        """Scrape these as `job`, instead of what was scraped before, and wait until each has answered."""
        self._scraped[job] = list(addresses)
        groups = [{"labels": {"job": name}, "targets": each} for name, each in self._scraped.items()]
        passing = self._targets.with_suffix(".new")
        passing.write_text(json.dumps(groups))
        passing.rename(self._targets)
        if not addresses:
            return
        up = f'count(up{{job="{job}"}} == 1) == {len(addresses)}'
        await eventually(lambda: self.query(up), bool, f"{job} is scraped")

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an instant query."""
        answer = await self._get("query", {"query": expression})
        return list(answer["result"])

    async def firing(self) -> dict[str, dict[str, Any]]:
        """Return the alerts that fire, by name, as Prometheus gives them to Alertmanager."""
        answer = await self._get("alerts", {})
        return {alert["labels"]["alertname"]: alert for alert in answer["alerts"] if alert["state"] == "firing"}

    async def fires(self, *names: str, seconds: float = 60) -> dict[str, dict[str, Any]]:
        """Wait until these alerts fire, all at once."""
        self.fired.update(names)
        return await eventually(self.firing, lambda firing: set(names) <= firing.keys(), f"{names} fire", seconds)

    async def resolves(self, *names: str, seconds: float = 60) -> None:
        """Wait until none of these alerts fires."""
        await eventually(self.firing, lambda firing: not set(names) & firing.keys(), f"{names} resolve", seconds)

    async def _get(self, what: str, parameters: Mapping[str, str]) -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self._url}/{what}", params=parameters) as answer,
        ):
            body = await answer.json()
        assert body["status"] == "success", body
        return body["data"]
