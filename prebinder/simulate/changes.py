"""The changes that the flags of `simulate` request, checked against the cluster before anything is run."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kube.objects.model import Pod
from prebinder.errors import UsageError
from prebinder.simulate.flags import check_known
from scheduler.simulator import what_if
from scheduler.simulator.simulated_cluster import SimulatedCluster
from scheduler.state.cluster import ClusterView


@dataclass(frozen=True, slots=True)
class RequestedChange:
    """A change: its description, how it is applied, and whether it loses data."""

    subject: str
    verb: str
    change: Callable[[SimulatedCluster, str], list[Pod]]
    loses_data: bool = False

    def made(self, cluster: SimulatedCluster) -> list[Pod]:
        """Apply the change and return the pods that lost their node or their data."""
        return self.change(cluster, self.subject)

    def __str__(self) -> str:
        return f"{self.subject} {self.verb}"


def changes_of(
    view: ClusterView,
    *,
    drain: Sequence[str] = (),
    node_down: Sequence[str] = (),
    zone_down: Sequence[str] = (),
    unhealthy: Sequence[str] = (),
) -> list[RequestedChange]:
    """Return the changes in the order in which they are applied. Raises UsageError for a name that does not exist."""
    storage = list(_storage(unhealthy, view))
    drained = check_known("--drain", drain, view.numbers)
    down = check_known("--node-down", node_down, view.numbers)
    zones = check_known("--zone-down", zone_down, {state.zone for state in view.nodes if state.zone})
    both = [name for name in drained if name in down]
    if both:
        raise UsageError(f"--node-down {both[0]}: also drained; expected one of the two")
    gone = {state.name for state in view.nodes if state.zone in zones}
    return [
        *(RequestedChange(node, "drained", what_if.drain) for node in drained),
        *(RequestedChange(node, "gone", what_if.node_down) for node in down if node not in gone),
        *(RequestedChange(zone, "gone", what_if.zone_down) for zone in zones),
        *storage,
    ]


def _storage(named: Iterable[str], view: ClusterView) -> Iterator[RequestedChange]:
    snapshot = view.storage.snapshot
    drivers = {volume.driver for volume in snapshot.volumes.values() if volume.driver} | set(snapshot.csi_drivers)
    for each in dict.fromkeys(named):
        kind, _, name = each.partition("/")
        if kind == "pv":
            check_known("--unhealthy pv", [name], snapshot.volumes)
            yield RequestedChange(name, "unhealthy", what_if.volume_fails, loses_data=True)
        elif kind == "driver":
            check_known("--unhealthy driver", [name], drivers)
            yield RequestedChange(name, "unhealthy", what_if.driver_fails, loses_data=True)
        else:
            raise UsageError(f'--unhealthy: expected pv/NAME or driver/NAME, found "{each[:60]}"')
