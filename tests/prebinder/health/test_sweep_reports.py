"""Reports of sweeps, read off the Leases of a cluster."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from binder.health.published_sweeps import sweeps_annotation
from binder.reservation.contract import Annotations
from csi.health.complete_sweep import SweepReport
from kube.client.api import KubeApi
from kube.client.transport import Request
from kube.errors import KubeError, Unavailable
from prebinder.health.sweep_reports import SWEEP_POLL_SECONDS, LatestSweeps
from tests.builders import EPOCH, volume
from tests.fake_clock import FakeClock
from tests.kube.scripted_transport import Answer, ScriptedTransport, answer, failure, listing, thing

DRIVER = "disk.csi.example"
OURS = Annotations()
REPORT = SweepReport(DRIVER, EPOCH, EPOCH, timedelta(minutes=1), 1, 1)
OF_DRIVER, WITHOUT_DRIVER = volume(), volume(source="nfs")


def leases(*reports: SweepReport) -> Answer:
    published = [sweeps_annotation({report.driver: report}, OURS) for report in reports]
    made = [thing(f"lease-{number}", 1, "ns") for number in range(len(published))]
    for lease, annotations in zip(made, published, strict=True):
        lease["metadata"]["annotations"] = annotations
    others = [thing("kube-scheduler", 1, "kube-system"), {"metadata": {"annotations": [1]}}]
    return answer(200, listing(1, *others, *made))


class Reading:
    """A cluster that answers, and who reads there."""

    def __init__(self, respond: Callable[[], Answer], *drivers: str) -> None:
        self.clock = FakeClock()
        self.transport = ScriptedTransport(lambda _: respond())
        self.sweeps = LatestSweeps(KubeApi(self.transport), drivers, OURS, self.clock)

    @property
    def requests(self) -> list[Request]:
        return self.transport.requests


async def test_the_reports_of_all_leases_but_those_of_nodes() -> None:
    reading = Reading(lambda: leases(REPORT, replace(REPORT, driver="other")))
    read = await reading.sweeps.about([OF_DRIVER])
    assert [(sweep.report.driver, sweep.lease) for sweep in read] == [(DRIVER, "ns/lease-0"), ("other", "ns/lease-1")]
    (request,) = reading.requests
    assert request.path == "/apis/coordination.k8s.io/v1/leases"
    assert ("fieldSelector", "metadata.namespace!=kube-node-lease") in request.query


async def test_nothing_is_read_that_is_not_needed() -> None:
    reading = Reading(lambda: leases(REPORT), DRIVER)
    assert not await reading.sweeps.about([OF_DRIVER, WITHOUT_DRIVER])
    assert not reading.requests


async def test_they_are_read_again_when_they_are_old() -> None:
    answers = [leases(REPORT), Unavailable("GET", "/", 0, "ClientConnectorError", "rejected"), leases(REPORT, REPORT)]
    reading = Reading(lambda: answers.pop(0))
    seen = []
    for seconds in (0, SWEEP_POLL_SECONDS / 2, SWEEP_POLL_SECONDS / 2, SWEEP_POLL_SECONDS):
        reading.clock.jump(seconds)
        seen.append(len(await reading.sweeps.about([OF_DRIVER])))
    assert seen == [1, 1, 1, 2], "what was read stays while the API server does not answer"
    assert not answers


async def test_a_first_reading_that_fails_is_an_error() -> None:
    reading = Reading(lambda: Unavailable("GET", "/", 0, "ClientConnectorError", "rejected"))
    with pytest.raises(KubeError):
        await reading.sweeps.about([OF_DRIVER])


async def test_missing_rights_to_leases_are_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    reading = Reading(lambda: answer(403, failure(403, "Forbidden")))
    for _ in range(2):
        assert not await reading.sweeps.about([OF_DRIVER])
        reading.clock.jump(SWEEP_POLL_SECONDS)
    assert len(reading.requests) == 1
    assert capsys.readouterr().err.count("not permitted to list leases") == 1
