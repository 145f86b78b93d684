import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.errors import ClusterError
from devcluster.processes.state import State, discard, is_owned, owner_pid, remove_if_abandoned
from tests.devcluster.liveness import eventually, is_alive

# Owns a directory, starts a process with the directory among its arguments, and prints the ids of reaper and process.
OWNER = """\
import pathlib, subprocess, sys, time
from devcluster.processes.state import State
state = State(pathlib.Path(sys.argv[1]))
sleep = [sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]]
child = subprocess.Popen(sleep, process_group=state.group)
state.record(child)
print(state.group, child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cluster"


@pytest.fixture
def owner(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns the directory."""
    process = subprocess.Popen([sys.executable, "-c", OWNER, str(directory)], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def started_by(owner: "subprocess.Popen[str]") -> tuple[int, int]:
    assert owner.stdout is not None
    reaper, child = owner.stdout.readline().split()
    return int(reaper), int(child)


def test_a_directory_is_owned_until_it_is_released(directory: Path) -> None:
    state = State(directory)
    assert is_owned(directory)
    assert owner_pid(directory) == os.getpid()
    state.release()
    assert not directory.exists()


def test_a_release_ends_what_runs_in_the_group(directory: Path) -> None:
    state = State(directory)
    child = subprocess.Popen(["sleep", "600"], process_group=state.group)
    state.release()
    assert child.wait() == -signal.SIGKILL


def test_a_directory_has_one_owner(directory: Path) -> None:
    state = State(directory)
    with pytest.raises(ClusterError, match="one is running there"):
        State(directory)
    assert is_owned(directory)
    state.release()


def test_a_directory_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ClusterError, match="it holds something else"):
        State(tmp_path)
    assert not remove_if_abandoned(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_path_where_no_directory_can_be_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ClusterError, match=r"in .*/file/cluster: Not a directory; choose another directory"):
        State(tmp_path / "file" / "cluster")


def test_an_owner_killed_takes_everything_with_it(owner: "subprocess.Popen[str]", directory: Path) -> None:
    reaper, child = started_by(owner)
    assert is_alive(child)
    owner.kill()
    assert eventually(lambda: not directory.exists())
    assert eventually(lambda: not is_alive(child) and not is_alive(reaper))


def test_what_outlives_owner_and_reaper_is_ended_by_the_next(owner: "subprocess.Popen[str]", directory: Path) -> None:
    reaper, child = started_by(owner)
    os.kill(reaper, signal.SIGKILL)
    owner.kill()
    owner.wait()
    assert is_alive(child)
    assert remove_if_abandoned(directory)
    assert eventually(lambda: not is_alive(child))
    assert not directory.exists()


def test_what_was_started_a_moment_ago_is_ended_by_the_next(directory: Path, tmp_path: Path) -> None:
    """The system does not show the arguments of a process until it has loaded its program."""
    state, abandoned = State(directory), tmp_path / "abandoned"
    for _ in range(20):
        abandoned.mkdir()
        (abandoned / "owner.lock").write_text("4711", encoding="ascii")
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", str(abandoned)])
        state.record(child)
        recorded = (directory / "pids").read_text(encoding="ascii").splitlines()
        (abandoned / "pids").write_text(recorded[-1], encoding="ascii")
        assert remove_if_abandoned(abandoned)
        try:
            assert child.wait(timeout=30) == -signal.SIGKILL
        finally:
            child.kill()
    state.release()


def test_what_ended_before_it_owned_its_directory_is_discarded(directory: Path) -> None:
    directory.mkdir()
    discard(directory)
    assert not directory.exists()


def test_what_ended_before_it_had_a_reaper_is_discarded(directory: Path) -> None:
    directory.mkdir()
    (directory / "owner.lock").write_text("4711", encoding="ascii")
    discard(directory)
    assert not directory.exists()


def test_a_directory_that_is_just_being_taken_is_left_to_its_owner(directory: Path) -> None:
    """The file exists and is not locked yet: a search for leftovers must not lock it first."""
    directory.mkdir()
    (directory / "owner.lock").touch()
    assert not remove_if_abandoned(directory)
    assert not is_owned(directory)
    State(directory).release()


def test_a_live_cluster_is_not_discarded(directory: Path) -> None:
    state = State(directory)
    discard(directory)
    assert is_owned(directory)
    state.release()


def test_a_recorded_pid_reused_by_another_process_is_not_killed(
    owner: "subprocess.Popen[str]", directory: Path
) -> None:
    reaper, child = started_by(owner)
    stranger = subprocess.Popen(["sleep", "600"])
    with (directory / "pids").open("a", encoding="ascii") as pids:
        pids.write(f"{stranger.pid} 1\n")
    os.kill(reaper, signal.SIGKILL)
    owner.kill()
    owner.wait()
    assert remove_if_abandoned(directory)
    assert eventually(lambda: not is_alive(child))
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_a_live_cluster_is_not_abandoned(owner: "subprocess.Popen[str]", directory: Path) -> None:
    _, child = started_by(owner)
    assert owner_pid(directory) == owner.pid
    assert not remove_if_abandoned(directory)
    assert is_alive(child)
