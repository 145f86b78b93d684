"""docs/metrics.md names every metric there is, with the processes that export it and its help text."""

import re
from pathlib import Path
from typing import Final

from kube.store.store import snapshot_of
from prebinder.metrics.collectors.cluster import ClusterState
from prebinder.metrics.collectors.scheduler import SchedulerState
from prebinder.metrics.extender import ExtenderInstruments
from prebinder.metrics.instruments import Instruments
from prebinder.metrics.scheduler import SchedulerInstruments
from scheduler.extender.extender import KINDS
from tests.builders import EPOCH

PAGE: Final = Path(__file__).parents[3] / "docs" / "metrics.md"
EXPORTED_BY: Final = {
    "Every process": {"controller", "scheduler", "extender"},
    "The controller and the scheduler": {"controller", "scheduler"},
    "The controller, and the agent for its own driver": {"controller"},
    "The extender, alone or in the controller's process": {"controller", "extender"},
    "The scheduler": {"scheduler"},
}
CLIENT: Final = ("process_", "python_")


async def rendered() -> dict[str, str]:
    """Return what each process serves on /metrics."""
    texts = {
        "controller": await Instruments("lease", ()).render(ClusterState(snapshot=snapshot_of([])), EPOCH),
        "scheduler": await SchedulerInstruments("lease", (), EPOCH).render(SchedulerState()),
        "extender": await ExtenderInstruments(KINDS).render(),
    }
    return {process: text.decode() for process, text in texts.items()}


async def test_the_page_names_every_metric_where_it_is_exported() -> None:
    exported: dict[str, set[str]] = {}
    for process, text in (await rendered()).items():
        for name in re.findall(r"^# HELP (\S+) ", text, re.MULTILINE):
            if not name.startswith(CLIENT):
                exported.setdefault(name, set()).add(process)
    explained = {
        name: EXPORTED_BY[title]
        for title, _, body in (section.partition("\n") for section in PAGE.read_text().split("\n## ")[1:])
        for name in re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE)
    }
    assert explained == exported


async def test_help_texts_are_those_of_the_page() -> None:
    """The page writes them as a table does: without a capital and a full stop, and with code in backticks."""
    helps = {
        name: text
        for page in (await rendered()).values()
        for name, text in re.findall(r"^# HELP (\S+) (.*)$", page, re.MULTILINE)
        if not name.startswith(CLIENT)
    }
    cells = re.findall(r"^\| `(\w+)` \|[^|]*\| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    described = {name: f"{text[:1].upper()}{text[1:]}.".replace("`", "") for name, text in cells}
    assert helps == described
