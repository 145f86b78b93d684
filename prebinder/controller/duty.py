"""What a process does while it holds its Lease: the controller's whole work, or less of it beside a CSI driver."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from binder.matching.rejection import Reason
from csi.health.health import HealthRecord
from kube.leaderelection.leadership import Leadership
from kube.objects.api_resource import WATCHED, Resource
from prebinder.controller.term import Surroundings, Term


class Work(Protocol):
    """The work of one term."""

    async def run(self) -> None:
        """Work until `stop`, then finish what has begun. Raises LeadershipLost."""

    def stop(self) -> None:
        """Begin nothing more."""

    def health_changed(self, driver: str, handle: str, old: HealthRecord | None, new: HealthRecord) -> None:
        """Something was learned about a volume."""

    def driver_answers(self, driver: str) -> None:
        """A driver answers that did not."""

    def quarantine(self) -> Mapping[str, tuple[int, int]]:
        """Return for each class how many volumes are in quarantine, and how many only its cap keeps out."""

    def told(self) -> Mapping[str, Reason]:
        """Return for each claim that is not bound what was last said of it."""

    def queue_seconds(self) -> Mapping[str, tuple[float, float]]:
        """Return for each queue the seconds of unfinished work, and of the longest."""


@dataclass(frozen=True, slots=True)
class Duty:
    """`component` names it in Events and logs, `resources` are the kinds it watches, `term` makes its work."""

    component: str
    resources: Collection[Resource]
    term: Callable[[Surroundings, Leadership], Work]

    @property
    def sees_the_cluster(self) -> bool:
        """Whether it knows enough to count what there is in the cluster."""
        return set(self.resources) == set(WATCHED)


CONTROLLER = Duty("pvc-prebinder", WATCHED, Term)
