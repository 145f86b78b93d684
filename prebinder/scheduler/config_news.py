"""Reports that the configuration was replaced, or a new one rejected: as a metric, and as an Event on our Lease."""

from collections.abc import Callable
from typing import Final

from kube.client.event_recorder import EventDraft, EventSink, ObjectRef
from kube.clock import Clock
from prebinder.metrics.scheduler import ConfigurationMetrics
from scheduler.standalone.config_watch import ReloadOutcome

APPLIED: Final = "ConfigReloaded"
REJECTED: Final = "ConfigRejected"


class ConfigurationNews:
    """Notified by config_watch. `about` is the object of the Events; `applied` is called at the end."""

    def __init__(
        self,
        metrics: ConfigurationMetrics,
        events: EventSink,
        about: ObjectRef,
        clock: Clock,
        applied: Callable[[], None],
    ) -> None:
        self._about = about
        self._applied = applied
        self._metrics = metrics
        self._events = events
        self._clock = clock

    def configuration_changed(self, outcome: ReloadOutcome, problem: str) -> None:
        if outcome is ReloadOutcome.APPLIED:
            self._metrics.applied(self._clock.now())
            self._say("Normal", APPLIED, "Configuration reloaded")
            self._applied()
        else:
            self._metrics.rejected()
            self._say("Warning", REJECTED, f"Configuration rejected; the previous one stays in force: {problem}")

    def _say(self, kind: str, reason: str, note: str) -> None:
        self._events.publish(EventDraft(self._about, None, kind, reason, "Reload", note))
