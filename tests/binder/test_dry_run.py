"""A dry run reports, write for write, what the controller would do."""

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from tests.binder.stories import STORIES
from tests.binder.world import World

KEYS = {"pv": "persistentvolumes", "pvc": "persistentvolumeclaims", "pod": "pods"}
LONG = 60.0


def changed(body: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = {key: value for key, value in body.get("metadata", {}).items() if key not in {"resourceVersion", "uid"}}
    rest = {key: value for key, value in body.items() if key != "metadata"}
    return {**rest, **({"metadata": metadata} if metadata else {})}


async def run(world: World, *, dry_run: bool = False) -> None:
    async with world.process(dry_run=dry_run) as process:
        await process.run(LONG)


@pytest.mark.parametrize("story", STORIES)
async def test_it_reports_what_a_run_writes(story: str, caplog: pytest.LogCaptureFixture) -> None:
    real, dry = STORIES[story](), STORIES[story]()
    await run(real)
    with caplog.at_level(logging.DEBUG, "kube.client.dry_run"):
        await run(dry, dry_run=True)
    assert dry.server.writes == []
    reported = [
        (KEYS[key], vars(record)[key], json.loads(vars(record)["change"]))
        for record in caplog.records
        if record.getMessage() == "Would write"
        for key in KEYS
        if key in vars(record)
    ]
    assert reported == [(write.plural, write.name, changed(write.body)) for write in real.server.writes]
