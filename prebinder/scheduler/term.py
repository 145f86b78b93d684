"""What the scheduler does while it holds its Lease: everything that may write is made for one term."""

from dataclasses import dataclass
from datetime import timedelta

from binder.model.view import PlanSettings
from binder.reporting.announce import EventSink
from binder.writers.object_client import LiveObjects
from kube.clock import Clock
from kube.leaderelection.leadership import Leadership
from kube.objects.model import Pod
from kube.store.collection import Collection
from kube.store.store import Store
from prebinder.control.pod_binding_rpc import PodBinding
from prebinder.metrics.scheduler import SchedulerMetrics
from prebinder.runtime.clients import Access
from scheduler.binding.bind_volumes import BindVolumes
from scheduler.binding.binding_cycle import BindingPlugins
from scheduler.binding.default_binder import BindPod
from scheduler.binding.reserve_volumes import PromiseVolumes
from scheduler.binding.still_fits import StillFits
from scheduler.cycle.memoized_cycle import Decider
from scheduler.framework.plugin import SortKey
from scheduler.queue.requeue import Changes
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.standalone.assignment_check import AssignmentCheck
from scheduler.standalone.cache import PATIENCE, SchedulerCache
from scheduler.standalone.config_watch import ConfigurationInForce
from scheduler.standalone.evict import Evictor
from scheduler.standalone.pod_status import PodStatus
from scheduler.standalone.post_filter import PostFilter
from scheduler.standalone.schedule_one import Parts
from scheduler.standalone.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class SchedulerSurroundings:
    """What outlives a term. `pods` are those that wait, `bind_timeout` is for the claims of one of them."""

    access: Access
    store: Store
    pods: Collection[Pod]
    cluster: SchedulerCache
    configuration: ConfigurationInForce
    planning: PlanSettings
    bind_timeout: timedelta
    events: EventSink
    metrics: SchedulerMetrics
    clock: Clock

    def sort_key(self, pod: Pod) -> SortKey:
        """Return the pod's place in the queue by the configuration in force."""
        return self.configuration.current.profiles[pod.scheduler_name].queue_sort.key(pod)


class SchedulerTerm:
    """Schedules under one leadership, until `stop`."""

    def __init__(self, around: SchedulerSurroundings, leadership: Leadership) -> None:
        api, clock, planning = around.access.fenced(leadership), around.clock, around.planning
        live = LiveObjects(api, around.store, planning.annotations)
        self.waiting = SchedulingQueue(around.sort_key)
        for assumed in around.cluster.assumed():
            # Under way when the last term ended: whether it was assigned is asked at the first look.
            around.cluster.bound(assumed, clock.monotonic() - PATIENCE)
        status = PodStatus(api, clock)
        parts = Parts(
            pods=around.pods,
            waiting=self.waiting,
            cluster=around.cluster,
            assignments=AssignmentCheck(api, around.store.pods, around.cluster, clock),
            decider=Decider(),
            room=PostFilter(around.store.budgets, Evictor(api, around.events, clock), status),
            configuration=around.configuration,
            plugins=BindingPlugins(
                reserves=(PromiseVolumes(),),
                pre_binds=(BindVolumes(live, around.store, around.pods, clock, planning, around.bind_timeout),),
                binds=(StillFits(around.cluster, clock), BindPod(api)),
            ),
            status=status,
            events=around.events,
            metrics=around.metrics,
            clock=clock,
        )
        self._scheduler = Scheduler(parts)
        self._changes = Changes(around.store, self._scheduler.changed, planning.annotations)

        self.binding: PodBinding = self._scheduler.driven(around.store.pods)

    async def run(self) -> None:
        """Schedule until `stop`, then let assignments under way end. Raises LeadershipLost."""
        with self._changes.following():
            await self._scheduler.run()

    def stop(self) -> None:
        """Begin nothing more."""
        self._scheduler.stop()

    def rules_changed(self) -> None:
        """A new configuration is in force."""
        self._scheduler.rules_changed()
