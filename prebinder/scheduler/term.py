"""What the scheduler does as leader: everything that may write is created for one term."""

import asyncio
from datetime import timedelta

from binder.model.view import PlanSettings
from binder.writers.object_client import ObjectClient
from kube.background import Aside
from kube.client.api import KubeApi
from kube.client.event_recorder import EventSink
from kube.clock import Clock
from kube.objects.model import Pod
from kube.store.collection import Collection
from kube.store.store import Store
from scheduler.binding.bind_volumes import BindVolumes
from scheduler.binding.binding_cycle import BindingPlugins
from scheduler.binding.default_binder import BindPod
from scheduler.binding.reserve_volumes import ReserveVolumes
from scheduler.binding.still_fits import StillFits
from scheduler.standalone.cache import SchedulerCache
from scheduler.standalone.evict import Evictor
from scheduler.standalone.metrics import SchedulerMetrics
from scheduler.standalone.pod_status import PodStatus
from scheduler.standalone.schedule_one import CurrentConfiguration
from scheduler.standalone.scheduler import Scheduler


def compose(  # noqa: PLR0913 - all that a term needs of its process, by name
    api: KubeApi,
    *,
    store: Store,
    pods: Collection[Pod],
    cluster: SchedulerCache,
    configuration: CurrentConfiguration,
    planning: PlanSettings,
    bind_timeout: timedelta,
    events: EventSink,
    metrics: SchedulerMetrics,
    clock: Clock,
    aside: Aside = asyncio.to_thread,
) -> Scheduler:
    """Return the scheduler of one term. `api` is fenced by its Lease; `pods` are those that wait for a node.

    `bind_timeout` is for the claims of one pod.
    """
    client = ObjectClient(api, store, planning.annotations)
    return Scheduler(
        api=api,
        store=store,
        pods=pods,
        cluster=cluster,
        configuration=configuration,
        plugins=BindingPlugins(
            reserves=(ReserveVolumes(),),
            pre_binds=(BindVolumes(client, store, pods, clock, planning, bind_timeout),),
            binds=(StillFits(cluster, clock), BindPod(api)),
        ),
        evictor=Evictor(api, events, clock),
        status=PodStatus(api, clock),
        events=events,
        metrics=metrics,
        clock=clock,
        annotations=planning.annotations,
        aside=aside,
    )
