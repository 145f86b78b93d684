"""Every reason of an Event is explained to who meets it: in docs."""

from pathlib import Path

import pytest

from binder.reporting import announce, health_events, release_events
from prebinder.scheduler import config_news

DOCS = "".join(path.read_text() for path in (Path(__file__).parents[2] / "docs").glob("*.md"))
OTHERS = ("Scheduled", "FailedScheduling", "Preempted", "ConfigReloaded", "ConfigRejected")
MODULES = (announce, health_events, release_events, config_news)
NAMED = {
    value
    for module in MODULES
    for name, value in vars(module).items()
    if name.isupper() and not name.startswith("_") and isinstance(value, str) and value.isalpha()
}


@pytest.mark.parametrize("reason", sorted(NAMED | set(OTHERS)))
def test_a_reason_is_explained(reason: str) -> None:
    assert f"`{reason}`" in DOCS
