"""Sweeps by lists: of unhealthy volumes (CSI 1.13), and of all (CSI 1.12). Volumes a, b and c are healthy."""

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message

from csi.client.channel import Limits
from csi.client.endpoint import Endpoint
from csi.client.pages import PAGE_SIZE
from csi.health.health import Debounce
from csi.probe import DriverProbe
from csi.proto import csi_v1_pb2 as csi
from csi.records import HealthRecords
from csi.volume_probes import SWEEPS_PER_GET, Round, VolumeProbes
from kube.clock import SystemClock
from tests.csi.observers import Recorder
from tests.csi.scripted_driver import (
    NAME,
    Rejected,
    Rpc,
    Script,
    ScriptedDriver,
    gives,
    health_answer,
    healthy,
    listed_volume,
    volume_health,
    volumes_answer,
    without_problem,
)
from tests.csi.stage import FAST, Stage

UNHEALTHY_LIST = (Rpc.GET_VOLUME_HEALTH, Rpc.LIST_VOLUME_HEALTH)
FULL_LIST = (Rpc.VOLUME_CONDITION, Rpc.LIST_VOLUMES, Rpc.GET_VOLUME)
ONLY_LIST = (Rpc.VOLUME_CONDITION, Rpc.LIST_VOLUMES)
LISTED_UNHEALTHY, LISTED, GET_HEALTH = "ControllerListVolumeHealth", "ListVolumes", "ControllerGetVolumeHealth"
LOST = (csi.DATA_LOSS, "DiskGone")


@pytest.fixture
async def stage(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    async with ScriptedDriver(tmp_path / "s.sock", rpcs=request.param) as driver:
        driver.script[LISTED] = gives(volumes_answer("a", "b", "c"))
        stage = Stage(driver)
        yield stage
        await stage.drivers.close()


def unhealthy_list(*entries: csi.VolumeHealth, token: str = "") -> Script:
    return gives(csi.ControllerListVolumeHealthResponse(entries=entries, next_token=token))


def get_health(**unhealthy: tuple[int, str]) -> Script:
    async def script(request: bytes) -> Message:
        handle = csi.ControllerGetVolumeHealthRequest.FromString(request).volume_id
        return health_answer(handle, unhealthy[handle]) if handle in unhealthy else health_answer(handle)

    return script


of_unhealthy = pytest.mark.parametrize("stage", [UNHEALTHY_LIST], ids=["1.13"], indirect=True)
of_all = pytest.mark.parametrize("stage", [FULL_LIST], ids=["1.12"], indirect=True)
without_get = pytest.mark.parametrize("stage", [ONLY_LIST], ids=["1.12 by list"], indirect=True)


@of_unhealthy
async def test_the_first_sweep_confirms_each_and_later_ones_only_list(stage: Stage) -> None:
    await stage.sweep.run()
    assert stage.states() == ["Healthy"] * 3
    assert stage.calls()[GET_HEALTH] == 3
    await stage.sweep.run()
    calls = stage.calls()
    assert (calls[LISTED_UNHEALTHY], calls[GET_HEALTH]) == (1, 0)
    assert stage.states() == ["Healthy"] * 3


@of_unhealthy
async def test_a_listed_volume_is_confirmed_once(stage: Stage) -> None:
    await stage.sweep.run()
    stage.driver.script |= {LISTED_UNHEALTHY: unhealthy_list(volume_health("b", LOST)), GET_HEALTH: get_health(b=LOST)}
    stage.calls()
    for gets in (1, 0):
        await stage.sweep.run()
        assert stage.calls()[GET_HEALTH] == gets
        assert stage.states() == ["Healthy", "DataLoss", "Healthy"]


@of_unhealthy
@pytest.mark.parametrize(
    ("answer", "state"),
    [
        pytest.param(without_problem, "Healthy", id="the get knows better"),
        pytest.param(
            gives(Rejected(grpc.StatusCode.INTERNAL)), "DataLoss", id="a get that fails leaves the list's word"
        ),
        pytest.param(gives(Rejected(grpc.StatusCode.NOT_FOUND)), "Inaccessible", id="not found"),
    ],
)
async def test_what_a_get_makes_of_a_listed_volume(stage: Stage, answer: Script, state: str) -> None:
    await stage.sweep.run()
    stage.driver.script |= {LISTED_UNHEALTHY: unhealthy_list(volume_health("b", LOST)), GET_HEALTH: answer}
    await stage.sweep.run()
    assert stage.state("b") == state


@of_unhealthy
@pytest.mark.parametrize(
    ("answer", "first", "second"),
    [
        pytest.param(without_problem, "Healthy", "Healthy", id="confirmed by a get"),
        pytest.param(gives(Rejected(grpc.StatusCode.INTERNAL)), "Unknown", "Healthy", id="by two complete lists"),
        pytest.param(get_health(b=LOST), "DataLoss", "DataLoss", id="refuted by a get"),
    ],
)
async def test_recovery_of_a_volume_that_is_no_longer_listed(
    stage: Stage, answer: Script, first: str, second: str
) -> None:
    stage.driver.script |= {LISTED_UNHEALTHY: unhealthy_list(volume_health("b", LOST)), GET_HEALTH: get_health(b=LOST)}
    await stage.sweep.run()
    stage.driver.script |= {LISTED_UNHEALTHY: unhealthy_list(), GET_HEALTH: answer}
    for state in (first, second):
        await stage.sweep.run()
        assert stage.state("b") == state
        record = stage.drivers.records.state(NAME, "b")
        assert record is not None
        assert record.unhealthy is (state != "Healthy")


@of_unhealthy
@pytest.mark.parametrize(
    ("entries", "state"),
    [
        pytest.param([("b", (1, "Slow")), ("b", LOST)], "DataLoss", id="listed twice: the worst"),
        pytest.param([("b", (2, "Path"), (1, "Slow"))], "Inaccessible", id="several entries: the worst"),
        pytest.param([("b", (7, "Future"))], "Unknown", id="an unknown status"),
        pytest.param([("b", (7, "Future"), (1, "Slow"))], "Degraded", id="beside one that is known"),
        pytest.param([("b",)], "Healthy", id="listed without an entry"),
        pytest.param([("", LOST), ("x", LOST)], "Healthy", id="about no volume, and about another"),
    ],
)
async def test_odd_entries(stage: Stage, entries: list[tuple[str, *tuple[tuple[int, str], ...]]], state: str) -> None:
    await stage.sweep.run()
    stage.driver.script[LISTED_UNHEALTHY] = unhealthy_list(*(volume_health(handle, *rest) for handle, *rest in entries))
    stage.driver.script[GET_HEALTH] = gives(Rejected(grpc.StatusCode.INTERNAL))
    await stage.sweep.run()
    assert stage.states() == ["Healthy", state, "Healthy"]


@of_unhealthy
@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param(unhealthy_list(token="again"), "BrokenList", id="pages in a loop"),
        pytest.param(unhealthy_list(volume_health("b", (1, "x" * 10_000_000))), "AnswerTooLarge", id="10 MB of reason"),
        pytest.param(gives(b"\xff"), "MalformedAnswer", id="no list at all"),
        pytest.param(gives(Rejected(grpc.StatusCode.UNAVAILABLE)), "Unavailable", id="only the list fails"),
        pytest.param(gives(Rejected(grpc.StatusCode.ABORTED)), "Aborted", id="a token the driver does not know"),
    ],
)
async def test_without_a_list_each_volume_is_probed(stage: Stage, script: Script, code: str) -> None:
    stage.driver.script |= {LISTED_UNHEALTHY: script, GET_HEALTH: get_health(b=LOST)}
    for _ in range(2):
        await stage.sweep.run()
        assert stage.states() == ["Healthy", "DataLoss", "Healthy"]
        assert stage.calls()[GET_HEALTH] == 3
    assert stage.sweeps.lists == [(f"/csi.v1.Controller/{LISTED_UNHEALTHY}", code)] * 2


@of_all
async def test_a_full_list_needs_no_gets(stage: Stage) -> None:
    handles = [f"v{number:04}" for number in range(2 * PAGE_SIZE + 1)]
    stage.order.ordered = handles
    sizes: list[int] = []

    async def pages(request: bytes) -> Message:
        wanted = csi.ListVolumesRequest.FromString(request)
        sizes.append(wanted.max_entries)
        start = int(wanted.starting_token or 0)
        page = volumes_answer(*handles[start : start + wanted.max_entries])
        page.next_token = str(start + PAGE_SIZE) if start + PAGE_SIZE < len(handles) else ""
        return page

    stage.driver.script[LISTED] = pages
    await stage.sweep.run()
    assert set(stage.states()) == {"Healthy"}
    assert sizes == [PAGE_SIZE] * 3
    assert stage.calls()["ControllerGetVolume"] == 0


@of_all
async def test_a_full_list_includes_the_unhealthy_ones(stage: Stage) -> None:
    entries = [listed_volume("a"), listed_volume("b", abnormal=True), listed_volume("c", abnormal=None)]
    stage.driver.script[LISTED] = gives(csi.ListVolumesResponse(entries=entries))  # type: ignore[arg-type]
    await stage.sweep.run()
    assert stage.states() == ["Healthy", "Degraded", "Unknown"]


@of_all
@pytest.mark.parametrize(
    ("script", "state"),
    [(healthy, "Healthy"), (gives(Rejected(grpc.StatusCode.NOT_FOUND)), "Inaccessible")],
    ids=["the list forgot it", "it is gone"],
)
async def test_a_volume_that_the_list_omits_is_probed(stage: Stage, script: Script, state: str) -> None:
    stage.driver.script |= {LISTED: gives(volumes_answer("a", "c")), "ControllerGetVolume": script}
    await stage.sweep.run()
    assert stage.states() == ["Healthy", state, "Healthy"]
    assert stage.calls()["ControllerGetVolume"] == 1


@without_get
async def test_without_gets_two_lists_that_omit_a_volume_report_it_deleted(stage: Stage) -> None:
    await stage.sweep.run()
    stage.driver.script[LISTED] = gives(volumes_answer("a", "c"))
    for state in ("Healthy", "Inaccessible"):
        await stage.sweep.run()
        assert stage.states() == ["Healthy", state, "Healthy"]


@without_get
async def test_without_gets_a_truncated_list_reports_nothing(stage: Stage) -> None:
    await stage.sweep.run()
    page = volumes_answer("a")
    page.next_token = "again"
    stage.driver.script[LISTED] = gives(page)
    for _ in range(3):
        await stage.sweep.run()
        assert stage.states() == ["Unknown"] * 3
    assert [end.answered for end in stage.sweeps.ended] == [True, False, False, False]


@of_unhealthy
async def test_a_volume_that_is_gone_is_noticed_although_a_list_of_the_unhealthy_leaves_it_out(stage: Stage) -> None:
    await stage.sweep.run()
    stage.driver.script[GET_HEALTH] = gives(Rejected(grpc.StatusCode.NOT_FOUND))
    stage.calls()
    for _ in range(SWEEPS_PER_GET):
        await stage.sweep.run()
    assert stage.states() == ["Inaccessible"] * 3
    assert stage.calls()[LISTED_UNHEALTHY] == SWEEPS_PER_GET


@of_unhealthy
async def test_a_volume_in_its_turn_is_probed_once_and_a_failure_says_nothing(stage: Stage) -> None:
    await stage.sweep.run()
    stage.driver.script[GET_HEALTH] = gives(Rejected(grpc.StatusCode.INTERNAL))
    stage.calls()
    for _ in range(SWEEPS_PER_GET):
        await stage.sweep.run()
        assert stage.states() == ["Healthy"] * 3
    assert stage.calls()[GET_HEALTH] == 3


@pytest.mark.parametrize("getting", [False, True], ids=["without gets", "gets fail"])
async def test_a_list_that_two_rounds_share_counts_once(tmp_path: Path, getting: bool) -> None:
    """A sweep and a round about volumes in use may wait for the same list; what it omits is confirmed by another."""
    async with ScriptedDriver(tmp_path / "s.sock", rpcs=FULL_LIST if getting else ONLY_LIST) as driver:
        driver.script["ControllerGetVolume"] = gives(Rejected(grpc.StatusCode.INTERNAL))
        clock, records = SystemClock(), HealthRecords(Debounce())
        probe = DriverProbe(Endpoint(NAME, str(driver.socket)), Limits(), clock, Recorder())
        probes, negotiation = VolumeProbes(probe, records, FAST, clock), await probe.session.negotiated()
        driver.script[LISTED] = gives(volumes_answer("a"))
        first, second = [await probe.listed(["a", "b"]) for _ in range(2)]
        for _ in range(2):
            await probes.take_in(["a", "b"], negotiation, first, Round(2))
        record = records.state(NAME, "b")
        assert record is not None
        assert not record.unhealthy
        await probes.take_in(["a", "b"], negotiation, second, Round(2))
        record = records.state(NAME, "b")
        assert record is not None
        assert record.unhealthy
        await probe.close()


@without_get
async def test_a_list_that_fails_after_all_requests_for_it_were_cancelled_is_logged_by_no_loop(stage: Stage) -> None:
    """As when the controller stops while a driver hangs: asyncio would log the exception with a traceback."""
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    begun, ends = asyncio.Event(), asyncio.Event()

    async def fails_late(_: bytes) -> Message:
        begun.set()
        await ends.wait()
        raise Rejected(grpc.StatusCode.INTERNAL)

    stage.driver.script[LISTED] = fails_late
    waiting = asyncio.create_task(stage.sweep.run())
    await begun.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    ends.set()
    await stage.sweep.run()
    gc.collect()
    assert reported == []
