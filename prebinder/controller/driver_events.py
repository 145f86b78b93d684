"""Events about a driver whose answers exceed a limit: its volumes are then Unknown, and the driver has to be mended."""

import logging
from collections.abc import Callable
from typing import Final

from csi.health.size_limit import SizeLimit
from csi.health.verdict import HealthState
from kube.client.event_recorder import EventDraft, EventSink, ObjectRef
from kube.clock import Clock
from prebinder.metrics.drivers import DriverMetrics

logger = logging.getLogger(__name__)

LIMIT_EXCEEDED: Final = "DriverLimitExceeded"
PAUSE_SECONDS: Final = 60.0
"""Between two Events, and lines of the log, about the same limit of a driver, which may exceed it at every call."""


class DriverEvents:
    """Port of csi.probe: forwards everything to the metrics, and publishes Events on the CSIDriver object.

    `uid_of` returns the uid of a driver's object, "" if it is not known.
    """

    def __init__(self, metrics: DriverMetrics, sink: EventSink, uid_of: Callable[[str], str], clock: Clock) -> None:
        self._metrics, self._sink, self._uid_of, self._clock = metrics, sink, uid_of, clock
        self._next: dict[tuple[str, SizeLimit], float] = {}

    def operation(self, driver: str, method: str, code: str, seconds: float) -> None:
        self._metrics.operation(driver, method, code, seconds)

    def probed(self, driver: str, method: str, state: HealthState, seconds: float) -> None:
        self._metrics.probed(driver, method, state, seconds)

    def exceeded(self, driver: str, limit: SizeLimit, details: str) -> None:
        self._metrics.exceeded(driver, limit, details)
        now = self._clock.monotonic()
        if now < self._next.get((driver, limit), now):
            return
        self._next[driver, limit] = now + PAUSE_SECONDS
        about = {"driver": driver, "reason": limit, "error": details}
        logger.warning("An answer of the CSI driver exceeds a limit", extra=about)
        note = f"An answer of CSI driver {driver} was not used because it exceeds a limit ({limit}): {details}. "
        note += "Health that it reports this way stays Unknown until the driver keeps to the limit"
        regarding = ObjectRef("storage.k8s.io/v1", "CSIDriver", driver, uid=self._uid_of(driver))
        self._sink.publish(EventDraft(regarding, None, "Warning", LIMIT_EXCEEDED, "CheckHealth", note))
