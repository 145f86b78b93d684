"""What a real kube-scheduler says of a pod that fits no node, ours says of the same pod: Event and condition alike."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final

import pytest
import pytest_asyncio

from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from tests.scenarios.conformance.unschedulable_pods import (
    CAUSES,
    FITS,
    NAMESPACE,
    UNSUPPORTED,
    Cause,
    lay_out,
    taken_claims,
)
from tests.scenarios.environment.admin import Admin, Document
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.processes.scheduler_in_process import running_scheduler

THEIRS: Final = "default-scheduler"
OURS: Final = "ours"
NOT_HELPFUL: Final = "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
WITHOUT_NODES: Final = Cause("no nodes available to schedule pods")


@dataclass(frozen=True)
class Report:
    """What a scheduler says of a pod, without the pod's name. `as_profile`: the Event is reported under that name."""

    condition: dict[str, str]
    event: dict[str, str]
    as_profile: bool

    @property
    def note(self) -> str:
        return self.event["note"]

    def but_for_preemption(self) -> "Report":
        return replace(
            self,
            condition={key: text.partition(" preemption: ")[0] for key, text in self.condition.items()},
            event={key: text.partition(" preemption: ")[0] for key, text in self.event.items()},
        )


class Stage:
    """Both schedulers, each with a pod of every cause; `empty` is what they said while there was no node."""

    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        self.empty: dict[str, Report] = {}

    async def create(self, word: str, cause: Cause) -> None:
        await self.admin.create_at_once(cause.pod(_name(by, word), by) for by in (THEIRS, OURS))

    async def reports(self, word: str, reason: str) -> dict[str, Report | None]:
        """Return what both say of their pod, None where it is not said as condition and as Event yet."""
        events = await self.admin.list("Event", NAMESPACE)
        return {by: await self._report(_name(by, word), by, reason, events) for by in (THEIRS, OURS)}

    async def _report(self, pod: str, by: str, reason: str, events: list[Document]) -> Report | None:
        conditions = (await self.admin.get("Pod", pod, NAMESPACE))["status"].get("conditions", ())
        condition = next((dict(each) for each in conditions if each["type"] == "PodScheduled"), {})
        reported = [each for each in events if each["regarding"]["name"] == pod and each["reason"] == reason]
        if reason == "FailedScheduling":
            reported = [each for each in reported if each["note"] == condition.get("message")]
        if not reported:
            return None
        for changing in ("lastTransitionTime", "lastProbeTime"):
            condition.pop(changing, None)
        regarding = reported[0]["regarding"]
        event = {key: reported[0][key] for key in ("type", "reason", "action", "note")}
        event |= {key: regarding[key] for key in ("apiVersion", "kind", "namespace")}
        without = [{key: _comparable(str(value), pod) for key, value in part.items()} for part in (condition, event)]
        return Report(without[0], without[1], reported[0]["reportingController"] == by)


def _comparable(text: str, pod: str) -> str:
    """Leave out what the plugin of dynamic resource allocation adds to each text, and the pod's own name.

    Where no filter was run its PostFilter fails, and what preemption says is lost to that.
    """
    text = text.replace(pod, "POD").replace("no new claims to deallocate, ", "")
    whole, _, rest = text.rpartition(". ")
    return f"{whole}. {NOT_HELPFUL}" if whole and rest == "not found" else text


def _name(by: str, word: str) -> str:
    return f"{by}-{word.replace(' ', '-')}"


async def agreed(
    stage: Stage, word: str, text: str, reason: str = "FailedScheduling", *, elsewhere: bool = False
) -> dict[str, Report | None]:
    """Wait until both say the same, and kube-scheduler says this.

    `elsewhere`: kube-scheduler counts a node as one that evictions might help which another filter rejects anyhow.
    """

    def alike(reports: dict[str, Report | None]) -> bool:
        theirs, ours = reports[THEIRS], reports[OURS]
        if theirs is None or ours is None or text not in theirs.note:
            return False
        return theirs == ours or (elsewhere and theirs.but_for_preemption() == ours.but_for_preemption())

    return await eventually(lambda: stage.reports(word, reason), alike, f"both say the same: {word}", 20)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage() -> AsyncIterator[Stage]:
    async with DevCluster(Options(kwok=False)) as cluster, Admin(cluster) as admin:
        await cluster.create_namespace(NAMESPACE)
        cluster.controller_manager.pause()
        async with running_scheduler(cluster.kubeconfig, OURS, f"{OURS}.example/"):
            stage = Stage(admin)
            await stage.create("no nodes", WITHOUT_NODES)
            reports = await agreed(stage, "no nodes", WITHOUT_NODES.message)
            stage.empty = {by: report for by, report in reports.items() if report is not None}
            await admin.delete_all("Pod", NAMESPACE)
            await lay_out(admin)
            await admin.create_at_once(taken_claims(_name(by, "ephemeral claim of another") for by in (THEIRS, OURS)))
            for word, cause in CAUSES.items():
                await stage.create(word, cause)
            await stage.create("unsupported", UNSUPPORTED)
            await stage.create("fits", FITS)
            yield stage


def test_a_cluster_without_nodes(stage: Stage) -> None:
    assert stage.empty[OURS] == stage.empty[THEIRS]
    assert stage.empty[OURS].condition["message"] == stage.empty[OURS].note == WITHOUT_NODES.message


@pytest.mark.parametrize("cause", CAUSES)
async def test_a_pod_that_fits_no_node(stage: Stage, cause: str) -> None:
    report = (await agreed(stage, cause, CAUSES[cause].message, elsewhere=CAUSES[cause].elsewhere))[OURS]
    assert report is not None
    assert report.as_profile
    assert report.condition["reason"] == "Unschedulable"
    assert report.note.startswith("0/5 nodes are available: ")


async def test_a_pod_that_is_assigned(stage: Stage) -> None:
    report = (await agreed(stage, "fits", "to e", "Scheduled"))[OURS]
    assert report is not None
    assert report.note == f"Successfully assigned {NAMESPACE}/POD to e"


async def test_what_our_scheduler_does_not_support_is_rejected_in_its_own_words(stage: Stage) -> None:
    """kube-scheduler says nothing while the pod's ResourceClaim does not exist."""
    reports = await eventually(
        lambda: stage.reports("unsupported", "FailedScheduling"), lambda reports: reports[OURS], "ours rejects it"
    )
    report = reports[OURS]
    assert report is not None
    assert report.as_profile
    kind = [report.event[key] for key in ("type", "reason", "action")]
    assert kind == ["Warning", "FailedScheduling", "Scheduling"]
    assert "spec.resourceClaims, not supported" in report.note
    assert report.condition["message"] == report.note
    assert report.condition["reason"] == "Unschedulable"
