"""Single pods at the wish of a tool, beside the loop, with everything around it in memory."""

import asyncio

import pytest

from binder.matching.rejection import Reason, Rejection
from kube.errors import LeadershipLost
from kube.objects.model import Claim, Pod, Toleration
from scheduler.binding.pod_binding import Bound, Rejected, RejectionReason
from scheduler.framework.plugin import ScheduleResult
from scheduler.standalone.manual_binding import ManualBinding
from scheduler.state.cluster import ClusterView
from tests import builders
from tests.builders import claim, node, storage_class
from tests.fake_clock import settle
from tests.scheduler.manual_bindings import LARGE, LOST, SMALL, WEB, driven, rejection, with_claim
from tests.scheduler.scheduler_in_memory import Desk, pod


async def test_a_pod_goes_where_the_scheduler_chooses() -> None:
    async with driven() as (desk, binding):
        desk.add(pod("web", "4"))
        assert await binding.bind(WEB, "", "") == Bound("n2", "b")
        assert desk.binder.nodes == {"web": "n2"}
        assert desk.notes("Scheduled") == ["Successfully assigned default/web to n2"]


@pytest.mark.parametrize(("chosen", "zone"), [("n1", "a"), ("n2", "b")])
async def test_a_pod_goes_to_the_requested_node(chosen: str, zone: str) -> None:
    async with driven() as (desk, binding):
        desk.add(pod("web"))
        assert await binding.bind(WEB, "uid-default-web", chosen) == Bound(chosen, zone)
        assert desk.binder.nodes == {"web": chosen}


async def test_a_node_where_the_pod_does_not_fit_is_rejected_and_the_loop_continues() -> None:
    async with driven() as (desk, binding):
        desk.add(pod("web", "4"))
        result = await binding.bind(WEB, "", "n1")
        assert isinstance(result, Rejected)
        assert result.reason is RejectionReason.REJECTED
        assert [(rejection.subject, rejection.reason) for rejection in result.rejections] == [
            ("n1", Reason.INSUFFICIENT_RESOURCES)
        ]
        assert desk.binder.nodes == {}
        await desk.clock.advance(10)
        assert desk.binder.nodes == {"web": "n2"}


async def test_after_a_rejection_the_sleeping_loop_retries() -> None:
    async with driven() as (desk, binding):
        desk.add(pod("web", "9"))
        await settle()
        assert desk.metrics.failures[Reason.INSUFFICIENT_RESOURCES] == 1
        await binding.bind(WEB, "", "n1")
        await desk.clock.advance(5)
        assert desk.metrics.failures[Reason.INSUFFICIENT_RESOURCES] == 2


async def test_a_node_that_does_not_exist_is_named() -> None:
    async with driven() as (desk, binding):
        desk.add(pod("web"))
        assert await binding.bind(WEB, "", "n9") == Rejected(RejectionReason.REJECTED, "node n9 does not exist")


async def test_a_pod_that_fits_nowhere_is_answered_node_by_node() -> None:
    async with driven() as (desk, binding):
        desk.add(pod("web", "9"))
        result = await binding.bind(WEB, "", "")
        assert isinstance(result, Rejected)
        assert result.reason is RejectionReason.REJECTED
        assert result.text.startswith("0/2 nodes are available: 2 Insufficient cpu.")
        assert [rejection.subject for rejection in result.rejections] == ["n1", "n2"]
        desk.store.nodes.upsert(node("n3", allocatable={"cpu": "16"}))
        await desk.clock.advance(10)
        assert desk.binder.nodes == {"web": "n3"}


async def test_a_rejected_pod_is_not_waited_for() -> None:
    async with driven() as (desk, binding):
        desk.add(pod("web", "9"))
        await settle()
        desk.store.nodes.upsert(node("n3", allocatable={"cpu": "16"}))
        assert desk.waiting.sizes()["backoff"] == 1
        assert await binding.bind(WEB, "", "") == Bound("n3", "a")


@pytest.mark.parametrize(
    ("kept", "reason"),
    [
        pytest.param(pod("web", scheduling_gates=["quota"]), Reason.POD_GATED, id="gated"),
        pytest.param(pod("web", tolerations=[Toleration("a", "Near")]), Reason.POD_INVALID, id="invalid"),
    ],
)
async def test_a_pod_that_is_kept_aside_is_rejected(kept: Pod, reason: Reason) -> None:
    async with driven() as (desk, binding):
        desk.add(kept)
        result = await binding.bind(WEB, "", "")
        assert isinstance(result, Rejected)
        assert (result.reason, result.rejections[0].reason) == (RejectionReason.REJECTED, reason)


@pytest.mark.parametrize(
    ("there", "uid", "expected"),
    [
        pytest.param(None, "", RejectionReason.POD_NOT_FOUND, id="no such pod"),
        pytest.param(pod("web"), "another", RejectionReason.POD_NOT_FOUND, id="another of that name"),
        pytest.param(
            pod("web", node="n1"), "another", RejectionReason.POD_NOT_FOUND, id="another of that name has a node"
        ),
        pytest.param(pod("web", node="n1"), "", RejectionReason.ALREADY_BOUND, id="it has a node"),
        pytest.param(
            builders.pod("web", node="n1", scheduler_name="theirs"), "", RejectionReason.NOT_OURS, id="not ours"
        ),
        pytest.param(pod("web", node="n1", deleting=True), "", RejectionReason.NOT_OURS, id="on its way out"),
    ],
)
async def test_a_pod_that_does_not_wait_is_rejected(there: Pod | None, uid: str, expected: RejectionReason) -> None:
    async with driven() as (desk, binding):
        if there is not None:
            (desk.store.pods if there.node_name else desk.pods).upsert(there)
        assert rejection(await binding.bind(WEB, uid, "")) is expected
        assert rejection(await binding.unbind(WEB, uid)) is expected


async def test_a_pod_that_is_bound_and_not_shown_yet_is_bound_already() -> None:
    async with driven() as (desk, binding):
        desk.shows = False
        desk.add(pod("web"))
        await settle()
        for result in (await binding.bind(WEB, "", ""), await binding.unbind(WEB, "")):
            assert rejection(result) is RejectionReason.ALREADY_BOUND


async def test_a_pod_that_is_in_work_is_waited_for() -> None:
    async with driven(LARGE) as (desk, binding):
        desk.binder.held = asyncio.Event()
        desk.add(pod("web"))
        await settle()
        calls = [asyncio.ensure_future(binding.bind(WEB, "", wanted)) for wanted in ("", "n2", "n1")]
        await settle()
        assert not any(call.done() for call in calls)
        desk.binder.held.set()
        anywhere, there, elsewhere = await asyncio.gather(*calls)
        assert anywhere == there == Bound("n2", "b")
        assert rejection(elsewhere) is RejectionReason.ALREADY_BOUND
        assert desk.binder.order == ["web"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(LOST, RejectionReason.FAILED, id="rejected by the server"),
        pytest.param(OSError("cut"), RejectionReason.FAILED, id="no answer"),
        pytest.param(
            Rejection(Reason.ALREADY_ASSIGNED, WEB, "", ""),
            RejectionReason.ALREADY_BOUND,
            id="another scheduler was faster",
        ),
        pytest.param(Rejection(Reason.POD_ENDED, WEB, "", ""), RejectionReason.POD_NOT_FOUND, id="gone meanwhile"),
    ],
)
async def test_a_binding_that_fails_is_answered_and_retried(
    answer: Rejection | Exception, expected: RejectionReason
) -> None:
    async with driven() as (desk, binding):
        desk.binder.answers.append(answer)
        desk.add(pod("web"))
        assert rejection(await binding.bind(WEB, "", "")) is expected
        await desk.clock.advance(10)
        assert set(desk.binder.nodes) == {"web"}


async def test_the_volumes_of_a_pod_are_returned() -> None:
    async with driven() as (desk, binding):
        desk.volumes.ready.set()
        desk.add(with_claim(desk))
        assert await binding.bind(WEB, "", "") == Bound("n2", "b", {"data": "pv-1"})


async def test_a_claim_whose_volume_is_provisioned_is_reported() -> None:
    async with driven() as (desk, binding):
        desk.store.classes.upsert(storage_class(provisioner="disk.csi.example"))
        desk.store.claims.upsert(claim())
        desk.add(pod("web", claims=["data"]))
        call = asyncio.ensure_future(binding.bind(WEB, "", "n1"))
        await settle()
        made: Claim = claim(volume_name="pv-made", phase="Bound", resource_version=2)
        desk.store.claims.upsert(made)
        desk.volumes.ready.set()
        assert await call == Bound("n1", "a", {"data": "pv-made"}, ("data",))


async def test_a_cancelled_call_stops_nothing() -> None:
    async with driven() as (desk, binding):
        desk.add(with_claim(desk))
        call = asyncio.ensure_future(binding.bind(WEB, "", ""))
        await settle()
        call.cancel()
        await settle()
        desk.volumes.ready.set()
        await settle()
        assert desk.binder.nodes == {"web": "n2"}


async def test_without_a_term_nothing_is_done() -> None:
    desk = Desk(SMALL)
    binding = ManualBinding(desk.scheduler)
    desk.add(pod("web"))
    assert rejection(await binding.bind(WEB, "", "")) is RejectionReason.NOT_READY
    async with desk.running():
        await settle()
    assert rejection(await binding.bind(WEB, "", "")) is RejectionReason.NOT_READY
    assert rejection(await binding.unbind(WEB, "")) is RejectionReason.NOT_READY


async def test_a_term_that_ends_leaves_no_caller_waiting() -> None:
    async with driven() as (desk, binding):
        desk.binder.answers.append(LeadershipLost("it is over"))
        desk.add(pod("web"))
        assert rejection(await binding.bind(WEB, "", "")) is RejectionReason.NOT_READY


async def test_a_bug_costs_no_pod_its_turn() -> None:
    class Broken:
        name = "Broken"
        works = False

        def reserve(self, placement: ScheduleResult, cluster: ClusterView) -> ClusterView | Rejection:
            if not self.works:
                raise ZeroDivisionError
            return cluster

    broken = Broken()
    desk = Desk(SMALL, reserves=(broken,))
    binding = ManualBinding(desk.scheduler)
    async with desk.running():
        desk.add(pod("web"))
        with pytest.raises(ZeroDivisionError):
            await binding.bind(WEB, "", "n1")
        broken.works = True
        await desk.clock.advance(10)
        assert desk.binder.nodes == {"web": "n1"}
