"""The agent beside one CSI driver: looks at its volumes, and says on each PersistentVolume when its health changes.

It is the controller with a smaller duty: the same sweeps, the same Lease and fence, the same one write for a change.
It watches PersistentVolumes and nothing else; reservations, quarantine and pods are left to the controller, which
reads what is published here.
"""

from collections.abc import Mapping
from typing import Final

from binder.controllers.health_controller import Caretaker
from binder.matching.rejection import Reason
from binder.reporting.health_events import HealthAnnouncer
from binder.writers.actor import Rehearsal
from binder.writers.locks import KeyedLocks
from binder.writers.object_client import LiveObjects
from csi.health.health import HealthRecord
from kube.errors import LeadershipLost
from kube.leaderelection.leadership import Leadership
from kube.objects.api_resource import VOLUMES
from kube.workqueue import WorkQueue
from prebinder.controller.duty import Duty
from prebinder.controller.term import Surroundings, care_settings


class AgentTerm:
    """Publishes what is found of the driver's volumes, under one leadership, until `stop`."""

    def __init__(self, around: Surroundings, leadership: Leadership) -> None:
        annotations, clock, instruments = around.settings.binding.annotations, around.clock, around.instruments
        live = LiveObjects(around.access.fenced(leadership), leadership, around.store, annotations)
        self._volumes: WorkQueue[str] = WorkQueue(clock, around.rng, instruments.queues.of("volumes"))
        self._caretaker = Caretaker(
            store=around.store,
            known=around.drivers,
            live=live,
            # Never asked: a store without claims knows of none whose reservation could end.
            releasing=Rehearsal(),
            queue=self._volumes,
            locks=KeyedLocks(),
            waiting=_Nobody(),
            clock=clock,
            announcer=HealthAnnouncer(around.events),
            metrics=instruments.reservations,
            settings=care_settings(around.settings, around.namespace, only_asked=True),
        )

    async def run(self) -> None:
        """Publish until `stop`. Needs a store that is synced. Raises LeadershipLost."""
        lost = False
        try:
            await self._caretaker.run()
        except* LeadershipLost:
            lost = True
        if lost:
            raise LeadershipLost("the lease was lost during a write")

    def stop(self) -> None:
        """Begin nothing more."""
        self._volumes.shut_down()

    def health_changed(self, driver: str, handle: str, _old: HealthRecord | None, _new: HealthRecord) -> None:
        """Something was learned about a volume."""
        self._caretaker.health_changed(driver, handle, recovered=False)

    def driver_answers(self, driver: str) -> None:
        """Nothing hangs on it here: no pod waits for the agent."""

    def quarantine(self) -> Mapping[str, tuple[int, int]]:
        return {}

    def told(self) -> Mapping[str, Reason]:
        return {}

    def queue_seconds(self) -> Mapping[str, tuple[float, float]]:
        return {"volumes": (self._volumes.unfinished_seconds(), self._volumes.longest_running_seconds())}


class _Nobody:
    """The pods that wait for a volume: the agent sees none."""

    def room_in(self, class_name: str) -> None: ...


AGENT: Final = Duty("pvc-prebinder-csi-agent", (VOLUMES,), AgentTerm)
