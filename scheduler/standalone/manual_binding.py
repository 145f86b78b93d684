"""Single pods bound, or withdrawn, at the request of a tool: beside the loop, by the same rules and the same steps.

A pod that is scheduled at a tool's request counts as in progress, so the loop leaves it alone meanwhile. One that is in
progress already is not scheduled twice: the result of that attempt is the answer.
"""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Final

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Pod
from scheduler.binding.pod_binding import Bound, Rejected, RejectionReason, Released
from scheduler.cycle.cycle import Unschedulable, decide, judge
from scheduler.framework.containment import PluginFailed
from scheduler.framework.plugin import PreFilter, ScheduleResult
from scheduler.framework.profile import Profile
from scheduler.queue.scheduling_queue import Attempt
from scheduler.queue.validation import reject_pod
from scheduler.standalone.attempt_report import Ending
from scheduler.standalone.schedule_one import Work
from scheduler.standalone.scheduler import Scheduler
from scheduler.state.cluster import ClusterView
from scheduler.volumes.volumes import PodInfo

_STOPPED: Final = Rejected(RejectionReason.NOT_READY, "this replica stopped scheduling; check the pod")


class ManualBinding:
    """Binds single pods during one term. Implements prebinder.control.pod_binding_rpc.PodBinding."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._expected: dict[str, list[asyncio.Future[Ending | None]]] = {}
        scheduler.report.endings.append(self._ended)
        scheduler.ended.append(self.close)

    def close(self) -> None:
        """The term is over: notify all callers that still wait."""
        for key in list(self._expected):
            self._answer(key, None)

    async def bind(self, key: str, uid: str, node: str) -> Bound | Rejected:
        pod = self._find(key, uid) if self._scheduler.takes_work else _STOPPED
        if isinstance(pod, Rejected):
            return pod
        aside = _reject_kept_aside(pod)
        if aside is not None:
            return aside
        attempt, ending = self._scheduler.queue.take(key), self._expect(key)
        rejected = await self._try(attempt, node) if attempt is not None else None
        if rejected is not None:
            return rejected
        result = await ending
        if result is None:
            return _STOPPED
        return self._bound(result, node) if result.placement is not None else await self._not_bound(result)

    async def unbind(self, key: str, uid: str) -> Released | Rejected:
        pod = self._find(key, uid) if self._scheduler.takes_work else _STOPPED
        if isinstance(pod, Rejected):
            return pod
        reserved = self._scheduler.cache.assumed().get(key)
        if reserved is None:
            return Released()
        ending = self._expect(key)
        # Execution of a decision may begin in between.
        await asyncio.sleep(0)
        await self._scheduler.binding_cycle.withdraw(reserved.pod, "a request to unbind it")
        result = await ending
        if result is None:
            return _STOPPED
        return Released(reserved.node) if result.placement is None else _has_node(key, reserved.node)

    def _find(self, key: str, uid: str) -> Pod | Rejected:
        """Return the pod if it waits for a node and names this scheduler."""
        waiting = self._scheduler.queue.get(key)
        pod = waiting or self._scheduler.store.pods.items.get(key) or self._scheduler.pods.items.get(key)
        if pod is None:
            return Rejected(
                RejectionReason.POD_NOT_FOUND, f"pod {key}: no pod that waits for this scheduler or has a node"
            )
        if uid not in ("", pod.uid):
            return Rejected(RejectionReason.POD_NOT_FOUND, f"pod {key}: expected uid {uid}, found {pod.uid}")
        if pod.scheduler_name not in self._scheduler.configuration.current.profiles:
            return Rejected(RejectionReason.NOT_OURS, f"pod {key} has schedulerName {pod.scheduler_name}")
        if pod.deleting or pod.finished:
            return Rejected(RejectionReason.NOT_OURS, f"pod {key} has ended or is being deleted")
        if waiting is not None:
            return pod
        assumed = self._scheduler.cache.assumed().get(key)
        return _has_node(key, pod.node_name or (assumed.node if assumed is not None else "a node"))

    async def _try(self, attempt: Attempt, node: str) -> Rejected | None:
        """Schedule the pod now. Return why that is not possible; None if there is a result to wait for."""
        try:
            begun = await (self._only_on(attempt, node) if node else self._scheduler.schedule_one.begin(attempt))
        except PluginFailed as failure:
            self._scheduler.queue.retry(attempt, self._scheduler.clock.monotonic())
            return Rejected(RejectionReason.FAILED, str(failure))
        except Exception:
            self._scheduler.queue.retry(attempt, self._scheduler.clock.monotonic())
            raise
        finally:
            self._scheduler.wake()
        if isinstance(begun, Rejected):
            return begun
        if begun is not None and not self._scheduler.takes_work:
            begun.close()
            self._scheduler.cache.forget(attempt.pod.key)
            return _STOPPED
        if begun is not None:
            self._scheduler.start(begun)
        elif self._scheduler.queue.get(attempt.pod.key) is None:
            return _has_node(attempt.pod.key, "a node")
        return None

    async def _only_on(self, attempt: Attempt, node: str) -> Work | Rejected | None:
        async with self._scheduler.schedule_one.deciding:
            return await self._placed_on(attempt, node)

    async def _placed_on(self, attempt: Attempt, node: str) -> Work | Rejected | None:
        pod, schedule_one, post_filter = attempt.pod, self._scheduler.schedule_one, self._scheduler.post_filter
        view = await self._scheduler.cache.current(self._scheduler.clock)
        profile = self._scheduler.configuration.current.profiles[pod.scheduler_name]
        confined = replace(profile, pre_filters=(_OnlyOn(node), *profile.pre_filters))
        work = partial(post_filter.decide, pod, view, confined, _Afresh(), post_filter.moment(pod))
        decision = await schedule_one.decided(pod, view, work)
        if isinstance(decision, ScheduleResult):
            return schedule_one.place(attempt, decision, view)
        self._scheduler.queue.retry(attempt, self._scheduler.clock.monotonic())
        state = view.node(node)
        if state is None:
            return Rejected(RejectionReason.REJECTED, f"node {node} does not exist")
        why = await schedule_one.decided(pod, view, lambda: judge(pod, view, profile).why(state))
        if why is None:
            return Rejected(
                RejectionReason.REJECTED, f"pods on node {node} are being preempted for pods of higher priority"
            )
        return Rejected(RejectionReason.REJECTED, f"pod {pod.key} does not fit node {node}", (why,))

    def _bound(self, ending: Ending, node: str) -> Bound | Rejected:
        placement = ending.placement
        assert placement is not None
        if node not in ("", placement.node):
            return _has_node(ending.pod.key, placement.node)
        volumes = {claim.name: volume.name for claim, volume in placement.volumes.volumes}
        claims = self._scheduler.cache.snapshot().claims
        for named in ending.pod.claims:
            claim = claims.get(f"{ending.pod.namespace}/{named.name}")
            if claim is not None and claim.volume_name:
                volumes[named.name] = claim.volume_name
        provisioned = tuple(claim.name for claim in placement.volumes.provision)
        return Bound(placement.node, ending.zone, volumes, provisioned)

    async def _not_bound(self, ending: Ending) -> Rejected:
        if ending.reason is Reason.ALREADY_ASSIGNED:
            return _has_node(ending.pod.key, "a node")
        if ending.reason is Reason.POD_ENDED:
            return Rejected(RejectionReason.POD_NOT_FOUND, f"pod {ending.pod.key} was deleted")
        if not ending.rejected:
            return Rejected(RejectionReason.FAILED, ending.text)
        pod, schedule_one = ending.pod, self._scheduler.schedule_one
        async with schedule_one.deciding:
            view = await self._scheduler.cache.current(self._scheduler.clock)
            profile = self._scheduler.configuration.current.profiles[pod.scheduler_name]
            work = partial(_rejections, pod, view, profile)
            return Rejected(RejectionReason.REJECTED, ending.text, await schedule_one.decided(pod, view, work))

    def _expect(self, key: str) -> asyncio.Future[Ending | None]:
        future: asyncio.Future[Ending | None] = asyncio.get_running_loop().create_future()
        self._expected.setdefault(key, []).append(future)
        return future

    def _ended(self, ending: Ending) -> None:
        if self._expected:
            self._answer(ending.pod.key, ending)

    def _answer(self, key: str, ending: Ending | None) -> None:
        for future in self._expected.pop(key, ()):
            if not future.done():
                future.set_result(ending)


def _rejections(pod: Pod, view: ClusterView, profile: Profile) -> tuple[Rejection, ...]:
    return tuple(Unschedulable(judge(pod, view, profile), view).rejections())


class _OnlyOn(PreFilter):
    """Keeps a single node."""

    name = "OnlyOn"

    def __init__(self, node: str) -> None:
        self._node = node

    def confine(self, _: PodInfo, cluster: ClusterView, /) -> int:
        state = cluster.node(self._node)
        return 0 if state is None else 1 << state.number


class _Afresh:
    """Decides without a cache: a confined profile is used once."""

    def decide(self, pod: Pod, view: ClusterView, profile: Profile) -> ScheduleResult | Unschedulable:
        return decide(pod, view, profile)


def _reject_kept_aside(pod: Pod) -> Rejected | None:
    """Return why a pod cannot be scheduled until it is changed."""
    rejection = reject_pod(pod)
    if rejection is not None:
        return Rejected(RejectionReason.REJECTED, f"pod {pod.key} is invalid", (rejection,))
    if pod.scheduling_gates:
        gates = ", ".join(pod.scheduling_gates)
        gated = Rejection(Reason.POD_GATED, pod.key, "no scheduling gate", gates)
        return Rejected(RejectionReason.REJECTED, f"pod {pod.key} has scheduling gates: {gates}", (gated,))
    return None


def _has_node(key: str, node: str) -> Rejected:
    return Rejected(
        RejectionReason.ALREADY_BOUND,
        f"pod {key} is already bound to {node}; Kubernetes cannot unbind it: evict the pod",
    )
