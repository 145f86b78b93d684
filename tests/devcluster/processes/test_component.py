import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from devcluster.errors import AddressInUseError, ComponentFailedError
from devcluster.processes.component import Component

# Ignores SIGTERM, and says so in its log once it does.
STUBBORN = "trap '' TERM; echo listening; while :; do sleep 0.05; done"
WILLING = "echo listening; sleep 600"

Start = Callable[[str], Component]


@dataclass
class Owner:
    """Notes what is started; group 0 puts each process into a group of its own."""

    group: int = 0
    recorded: list[int] = field(default_factory=list)

    def record(self, process: subprocess.Popen[bytes]) -> None:
        self.recorded.append(process.pid)


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def component(tmp_path: Path, owner: Owner) -> Start:
    def make(script: str) -> Component:
        async def probe() -> bool:
            log = (tmp_path / "thing.log").read_text(encoding="utf-8")
            return log.count("listening") == len(owner.recorded)

        return Component("thing", ["sh", "-c", script], owner=owner, directory=tmp_path, probe=probe)

    return make


async def test_it_runs_until_it_is_stopped(component: Start, owner: Owner) -> None:
    thing = component(WILLING)
    await thing.start()
    assert thing.running
    assert owner.recorded == [thing.pid]
    await thing.stop()
    await thing.stop()
    assert not thing.running


async def test_a_second_start_changes_nothing(component: Start, owner: Owner) -> None:
    thing = component(WILLING)
    await thing.start()
    await thing.start()
    assert len(owner.recorded) == 1
    await thing.kill()


async def test_a_restart_is_another_process_with_the_same_log(component: Start, owner: Owner) -> None:
    thing = component(WILLING)
    await thing.start()
    await thing.restart()
    assert len(set(owner.recorded)) == 2
    await thing.kill()
    assert thing.log_tail() == "listening\nlistening"


async def test_a_process_that_ignores_sigterm_is_killed(component: Start) -> None:
    thing = component(STUBBORN)
    await thing.start()
    await thing.stop()
    assert not thing.running


async def test_pause_and_resume(component: Start) -> None:
    thing = component(WILLING)
    await thing.start()
    thing.pause()
    assert os.WIFSTOPPED(await changed(thing, os.WUNTRACED))
    assert thing.running
    thing.resume()
    assert os.WIFCONTINUED(await changed(thing, os.WCONTINUED))
    await thing.kill()


BUSY = f"""echo listening; exec {sys.executable} -c '
import hashlib, threading
def work():
    while True: hashlib.sha256(bytes(65536)).digest()
for _ in range(4): threading.Thread(target=work).start()
'"""


async def test_no_thread_of_a_paused_process_continues(component: Start) -> None:
    thing = component(BUSY)
    await thing.start()
    await until(lambda: len(thread_states(thing)) == 5)
    for _ in range(10):
        thing.pause()
        assert set(thread_states(thing)) == {"T"}
        thing.resume()
    await thing.kill()


def thread_states(thing: Component) -> list[str]:
    """Return the letter for each thread: T is stopped (man 5 proc_pid_stat)."""
    tasks = Path(f"/proc/{thing.pid}/task").iterdir()
    return [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - threads of another process
            await asyncio.sleep(0.01)


async def test_a_process_that_has_ended_is_not_waited_for(component: Start) -> None:
    thing = component(WILLING)
    await thing.start()
    os.kill(thing.pid, signal.SIGKILL)
    thing.pause()
    assert not thing.running


@pytest.mark.parametrize("end", [Component.stop, Component.kill], ids=["stop", "kill"])
async def test_a_paused_one_can_be_ended(end: Callable[[Component], Awaitable[None]], component: Start) -> None:
    thing = component(WILLING)
    await thing.start()
    thing.pause()
    await end(thing)
    assert not thing.running
    with pytest.raises(ProcessLookupError):
        os.kill(thing.pid, signal.SIGCONT)


async def test_a_process_that_ends_at_once_is_an_error_with_the_end_of_its_log(component: Start) -> None:
    with pytest.raises(ComponentFailedError, match=r"thing ended with exit code 3 (?s:.*)100\nboom$"):
        await component("seq 100; echo boom; exit 3").start()


async def test_a_process_that_never_gets_ready_is_an_error(component: Start) -> None:
    thing = component("echo almost; sleep 600")
    with pytest.raises(ComponentFailedError, match="not ready within 0 s"):
        await thing.start(seconds=0.05)
    await thing.kill()


async def test_a_port_in_use_is_distinguished(component: Start) -> None:
    with pytest.raises(AddressInUseError):
        await component("echo 'listen tcp 127.0.0.1:1: bind: address already in use'; exit 1").start()


async def test_an_answer_from_another_process_does_not_make_a_dead_one_ready(tmp_path: Path, owner: Owner) -> None:
    async def answers_once_it_is_gone() -> bool:
        return not thing.running

    thing = Component("thing", ["sh", "-c", "exit 4"], owner=owner, directory=tmp_path, probe=answers_once_it_is_gone)
    with pytest.raises(ComponentFailedError, match="exit code 4"):
        await thing.start()


async def changed(thing: Component, options: int) -> int:
    """Wait for a change of the process's state, and return it as `waitpid` does."""
    _, status = await asyncio.to_thread(os.waitpid, thing.pid, options)
    return status


def test_a_process_that_was_never_started_has_no_pid(component: Start) -> None:
    with pytest.raises(ComponentFailedError, match="thing was not started"):
        _ = component(WILLING).pid
