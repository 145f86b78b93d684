"""The dashboard on a real Prometheus that scrapes real processes."""

import asyncio
import json
import re
from pathlib import Path
from typing import Final

import pytest

from devcluster.driver.health import VolumeFault
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.scheduler_pods import pod as scheduled_pod
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.health.probed_volumes import volumes
from tests.scenarios.monitoring.prometheus import WINDOW, Prometheus, needs_prometheus
from tests.scenarios.monitoring.stage import staged
from tests.scenarios.processes.controller import (
    MANIFESTS,
)

pytestmark = [needs_prometheus, pytest.mark.timeout(900)]

PANELS: Final = json.loads((MANIFESTS / "components" / "dashboard" / "pvc-prebinder.json").read_text())["panels"]


async def test_every_panel_of_the_dashboard_shows_something(own_world: World, tmp_path: Path) -> None:
    hinted = await own_world.storage_class("annotate", "hinted")
    async with staged(own_world, tmp_path) as stage:
        made = await volumes(own_world, stage.driver, stage.disks, 4)
        await own_world.volumes(hinted, own_world.volume("hinted", hinted, zone="zone-a"))
        await own_world.pod("app", {"data": claim_spec(stage.disks)}, gated=True)
        await own_world.pod("big", {"big": claim_spec(stage.disks, "1Ti")}, gated=True)
        await own_world.admin.create(scheduled_pod(own_world, "plain"))
        await own_world.all_run("app", "plain")
        taken = (await own_world.bound())["data"]
        stage.driver.break_volume(next(handle for name, handle in made.items() if name != taken), VolumeFault.GONE)
        await stage.call_extender(json.dumps({"Pod": {"metadata": {"name": "p"}}, "NodeNames": ["node-1"]}).encode())
        async with own_world.scheduler_paused():
            await own_world.pod("hint", {"hinted": claim_spec(hinted)})
            await eventually(
                lambda: shown_by_none(stage.prometheus), lambda queries: not queries, "each panel has data"
            )


async def shown_by_none(prometheus: Prometheus) -> list[str]:
    """Return the queries of the dashboard that have no result, or none but NaN."""
    panels = [each for panel in PANELS for each in (panel, *panel.get("panels", ()))]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(queries) > 30
    results = await asyncio.gather(*(prometheus.query(entered(query)) for query in queries))
    return [query for query, result in zip(queries, results, strict=True) if not result]


def entered(query: str) -> str:
    """Return what Grafana sends: all clusters and namespaces, as at first."""
    return re.sub(r"\$(cluster|namespace)\b", ".*", query.replace("$__rate_interval", WINDOW))
