import asyncio
import os
from pathlib import Path

import pytest

from kube.configuration.document import ConfigurationError
from scheduler.framework.config import Configuration, parse
from scheduler.plugins.registry import REGISTRY, default_data
from scheduler.standalone.config_watch import POLL_SECONDS, ReloadOutcome, WatchedConfiguration
from tests.fake_clock import FakeClock, settle

TEXT = """apiVersion: config.pvc-prebinder/v1alpha1
kind: SchedulerConfiguration
profiles:
- schedulerName: ours
  scores: {BinPack: WEIGHT}
"""


class RecordedReloads:
    def __init__(self) -> None:
        self.changes: list[tuple[ReloadOutcome, str]] = []

    def configuration_changed(self, outcome: ReloadOutcome, problem: str) -> None:
        self.changes.append((outcome, problem))


def read(text: str) -> Configuration:
    return parse(text, REGISTRY, default_data)


def watching(path: Path, recorded: RecordedReloads) -> WatchedConfiguration:
    watched = WatchedConfiguration(path, read)
    watched.changed.append(recorded.configuration_changed)
    return watched


def weight(watched: WatchedConfiguration) -> int:
    return watched.current.profiles["ours"].scores[0].weight


def weighing(weight: str) -> str:
    return TEXT.replace("WEIGHT", weight)


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """A ConfigMap as the kubelet mounts it: the file leads through `..data` to a directory of this version."""
    swing(tmp_path, weighing("1"))
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    return tmp_path / "config.yaml"


def swing(volume: Path, text: str) -> None:
    version = volume / f"..version-{len(list(volume.iterdir()))}"
    version.mkdir()
    (version / "config.yaml").write_text(text)
    (volume / "..data_tmp").symlink_to(version.name)
    os.replace(volume / "..data_tmp", volume / "..data")


def write(path: Path, content: bytes | None) -> None:
    """Put a plain file there instead, or nothing."""
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)


async def test_a_new_version_of_a_config_map_is_taken_over(mounted: Path) -> None:
    recorded = RecordedReloads()
    watched = watching(mounted, recorded)
    before = watched.current
    swing(mounted.parent, weighing("7"))
    await watched.refresh()
    assert weight(watched) == 7
    assert before.profiles["ours"].scores[0].weight == 1
    assert recorded.changes == [(ReloadOutcome.APPLIED, "")]


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        pytest.param(weighing("heavy"), "profiles[0].scores", id="wrong-type"),
        pytest.param("a: [", "invalid YAML", id="not-yaml"),
        pytest.param(weighing("7") + "  filters: [Nope]\n", "profiles[0].filters", id="half-of-it-is-good"),
    ],
)
async def test_a_bad_version_is_rejected_as_a_whole_and_reported_once(mounted: Path, bad: str, place: str) -> None:
    recorded = RecordedReloads()
    watched = watching(mounted, recorded)
    swing(mounted.parent, bad)
    await watched.refresh()
    await watched.refresh()
    assert weight(watched) == 1
    assert [outcome for outcome, _ in recorded.changes] == [ReloadOutcome.REJECTED]
    assert place in recorded.changes[0][1]
    swing(mounted.parent, weighing("3"))
    await watched.refresh()
    assert weight(watched) == 3


async def test_a_file_that_is_gone_changes_nothing_and_its_return_is_noticed(mounted: Path) -> None:
    recorded = RecordedReloads()
    watched = watching(mounted, recorded)
    write(mounted, None)
    await watched.refresh()
    await watched.refresh()
    assert weight(watched) == 1
    assert [outcome for outcome, _ in recorded.changes] == [ReloadOutcome.REJECTED]
    write(mounted, weighing("1").encode())
    await watched.refresh()
    assert recorded.changes[-1] == (ReloadOutcome.APPLIED, "")


async def test_bytes_that_are_no_text(mounted: Path) -> None:
    recorded = RecordedReloads()
    watched = watching(mounted, recorded)
    write(mounted, b"\xff\xfe")
    await watched.refresh()
    assert recorded.changes == [(ReloadOutcome.REJECTED, "expected UTF-8, found an invalid byte at 0")]


async def test_a_bad_configuration_is_reported_only_to_its_sender(mounted: Path) -> None:
    recorded = RecordedReloads()
    watched = watching(mounted, recorded)
    with pytest.raises(ConfigurationError):
        await watched.apply(weighing("heavy").encode())
    assert (weight(watched), recorded.changes) == (1, [])


def test_there_is_nothing_to_stay_with_at_the_start(mounted: Path) -> None:
    swing(mounted.parent, "a: [")
    with pytest.raises(ConfigurationError):
        watching(mounted, RecordedReloads())


async def test_the_file_is_checked_periodically(mounted: Path) -> None:
    clock = FakeClock()
    watched = watching(mounted, RecordedReloads())
    following = asyncio.create_task(watched.follow(clock))
    await settle()
    assert clock.slept == [POLL_SECONDS]
    following.cancel()
