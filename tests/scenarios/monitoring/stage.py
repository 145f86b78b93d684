"""What a story of monitoring has: processes of every kind, and a Prometheus that scrapes them, with our rules."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from devcluster.driver.generation import Generation
from devcluster.processes.ports import LOOPBACK, free_ports
from tests.controller_process import Process, running
from tests.scenarios.environment.drivers import Directories, endpoint_flag, start_directories
from tests.scenarios.environment.world import World
from tests.scenarios.monitoring.prometheus import WINDOW, Prometheus
from tests.scenarios.processes.controller import (
    MANIFESTS,
    SYSTEM,
    Controller,
    account,
    apply_manifests,
    start_controller,
)
from tests.scenarios.processes.proxy import Proxy
from tests.scenarios.processes.scheduler_process import HEAD, LEASE, is_leading

CONTROLLER, EXTENDER, SCHEDULER = (f"pvc-prebinder-{name}" for name in ("controller", "extender", "scheduler"))
RULES: Final[list[dict[str, Any]]] = yaml.safe_load(
    (MANIFESTS / "components" / "alerts" / "prometheus_rule.yaml").read_text()
)["spec"]["groups"]
SOONER: Final = {
    "PVCPendingTooLong": ("> 900", "> 2"),
    "PVCPrebinderPodsGated": ("> 900", "> 2"),
    "CSIVolumeUnhealthyForDays": ("> 172800", "> 2"),
    "PVCBindLatencyHigh": ("> 120", "> 0"),
    "PodScheduleFailuresHigh": ("> 10", "> 0"),
    "CSIHealthOutdated": ("> 900", "> 3"),
    "PVCPrebinderWorkqueueStuck": ("> 300", "> 2"),
    "PVCPrebinderExtenderSlow": ("> 0.25", "> 0"),
}
"""Thresholds too long for a test; all others are those that ship."""


def sooner(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rules with seconds for minutes: ranges, and how long a state has to last."""
    made = deepcopy(groups)
    for rule in (rule for group in made for rule in group["rules"]):
        rule["expr"] = re.sub(r"\[\d+[md](:?)(\d+m)?\]", _shorter, rule["expr"])
        rule["expr"] = re.sub(r"offset \d+m", f"offset {WINDOW}", rule["expr"])
        name = rule.get("alert", "")
        if "for" in rule:
            rule["for"] = "1s"
        if name in SOONER:
            shipped, short = SOONER[name]
            assert shipped in rule["expr"], name
            rule["expr"] = rule["expr"].replace(shipped, short)
    return made


def _shorter(window: re.Match[str]) -> str:
    return f"[{WINDOW}:1s]" if window[1] else f"[{WINDOW}]"


@dataclass
class Stage:
    """A world with two drivers, of which the second answers for one volume at a time; a controller with an extender,
    behind a proxy; and a scheduler. Prometheus scrapes all of them.
    """

    world: World
    driver: Directories
    each: Directories
    proxy: Proxy
    controller: Controller
    scheduler: Process
    configuration: Path
    extender: str
    prometheus: Prometheus
    disks: str

    async def call_extender(self, body: bytes) -> None:
        async with aiohttp.ClientSession() as session, session.post(f"http://{self.extender}/filter", data=body) as had:
            await had.read()


@asynccontextmanager
async def staged(world: World, directory: Path, *more: str) -> AsyncIterator[Stage]:
    """`more` are flags of the controller."""
    await apply_manifests(world.cluster, ["scheduler"])
    disks = await world.storage_class("complete")
    driver = await start_directories(world.cluster, f"{world.namespace}.csi.example")
    each = await start_directories(world.cluster, f"{world.namespace}-each.csi.example", Generation.HEALTH_GET)
    file, address = directory / "scheduler.yaml", f"{LOOPBACK}:{free_ports(1)[0]}"
    file.write_text(f"{HEAD}- schedulerName: {world.namespace}\n")
    flags = ["--health-sweep-interval=1s", "--health-max-age=1s", "--quarantine", f"--extender-bind-address={address}"]
    flags += [endpoint_flag(driver.driver), endpoint_flag(each.driver), *more]
    own = [f"--config={file}", f"--annotation-prefix={world.prefix}"]
    own += ["--lease-namespace", SYSTEM, "--lease-name", LEASE]
    rights = await world.cluster.kubeconfig_for_service_account(SYSTEM, LEASE)
    async with Proxy(world.cluster) as proxy, running("scheduler", rights, *own) as scheduler:
        through = proxy.kubeconfig_for(await account(world.cluster))
        controller = await start_controller(world, *flags, kubeconfig=through)
        await is_leading(scheduler)
        prometheus = await Prometheus.start(world.cluster, directory, sooner(RULES))
        await prometheus.scrape(CONTROLLER, controller.metrics_address)
        await prometheus.scrape(SCHEDULER, f"{LOOPBACK}:{scheduler.port}")
        yield Stage(world, driver, each, proxy, controller, scheduler, file, address, prometheus, disks)
        await prometheus.component.stop()
        if not scheduler.stopped:
            await scheduler.stop()
        await controller.stop()
    await driver.driver.stop()
    await each.driver.stop()
