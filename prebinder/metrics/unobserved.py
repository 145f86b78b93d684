"""What a process without metrics counts: nothing."""

from datetime import datetime

from csi.health.size_limit import SizeLimit
from csi.health.verdict import HealthState


class Unobserved:
    """Counts nothing of drivers and watches: a command has no metrics."""

    def operation(self, driver: str, method: str, code: str, seconds: float) -> None: ...

    def probed(self, driver: str, method: str, state: HealthState, seconds: float) -> None: ...

    def exceeded(self, driver: str, limit: SizeLimit, details: str) -> None: ...

    def watch_restarted(self, resource: str, cause: str) -> None: ...

    def event_seen(self, resource: str, now: datetime) -> None: ...

    def malformed(self, resource: str) -> None: ...
