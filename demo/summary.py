"""The end of the demo: counts, times, rejections with their evidence, and how to explore the cluster."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from statistics import median

from binder.health.quarantine import in_quarantine
from binder.reporting.rejection_note import parse_rejection_note
from binder.reservation.contract import Annotations
from csi.health.topology import contradiction
from csi.health.verdict import Verdict
from demo import scene as demo_scene
from demo.show import with_seconds
from demo.stage import Ready
from demo.view import Row, zone_of_volume
from demo.watch import SeenEvent
from kube.objects.model import Volume
from kube.rules.quantity import format_quantity
from kube.store.snapshot import Snapshot


def summary(rows: Sequence[Row], snapshot: Snapshot, verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    """Return how many claims were bound, how fast, where each pod's volumes are, and what was rejected."""
    bound = [row for row in rows if row.state == "Bound"]
    rejected = [row for row in rows if row.state.startswith("Rejected")]
    times = sorted((row.settled_after, row.claim) for row in bound if row.settled_after is not None)
    own = [pod for pod in snapshot.pods.values() if pod.namespace == demo_scene.NAMESPACE]
    running = sum(pod.phase == "Running" for pod in own)
    yield f"{len(bound)} of {len(rows)} claims bound, {len(rejected)} rejected; {running} pods running."
    if times:
        longest, claim = times[-1]
        middle = median(seconds for seconds, _ in times)
        yield f"Claim created to bound: median {middle:.1f} s, longest {longest:.1f} s ({claim})."
    if bound:
        yield ""
        yield "Every pod has all of its volumes in one zone:"
    for pod in sorted({row.pod for row in bound}):
        mine = [row for row in bound if row.pod == pod]
        zones = ", ".join(sorted({row.zone for row in mine}))
        yield f"  {pod:<12} {zones:<8} {', '.join(row.volume for row in mine)}"
    yield ""
    taken = {row.volume for row in bound}
    yield "Rejected, although Kubernetes would take them:"
    yield from _listed(_faulty(snapshot, verdicts, kept=False), taken)
    yield ""
    yield "In quarantine, so that Kubernetes cannot take them either:"
    yield from _listed(_faulty(snapshot, verdicts, kept=True), taken)
    if wrong := [row for row in bound if _fault(snapshot.volumes[row.volume], verdicts)]:
        yield (
            "In use although unhealthy, because kube-scheduler was faster (no scheduling gate): "
            + ", ".join(f"{row.volume} by {row.pod}" for row in wrong)
        )
    free = (volume for volume in snapshot.volumes.values() if not volume.claim and volume.driver == demo_scene.DRIVER)
    sizes = Counter(format_quantity(volume.capacity) for volume in free)
    yield ""
    yield "Volumes still Available: " + ", ".join(f"{count} x {size}" for size, count in sorted(sizes.items()))


def outage(diary: Sequence[tuple[datetime, str]]) -> Iterator[str]:
    """Return what happened to the volume that became unhealthy, with times."""
    if diary:
        yield ""
        yield "A volume became unhealthy while pods waited:"
        yield from with_seconds(diary)


def rejections(rows: Sequence[Row], events: Mapping[str, SeenEvent]) -> Iterator[str]:
    """Return which pods still get nothing and why, from their Events."""
    waiting = {f"{demo_scene.NAMESPACE}/{row.pod}" for row in rows if row.state.startswith("Rejected")}
    for pod, event in sorted(events.items()):
        if pod not in waiting:
            continue
        yield ""
        yield f"{pod} is pending:"
        note = parse_rejection_note(event.note)
        yield from (f"  {line}" for line in ([event.note] if note is None else [note.step, *note.rejections]))


def in_the_browser(program: str) -> Iterator[str]:
    """Return how to open the page of a demo's cluster."""
    yield f"To see such a cluster in the browser: {program} demo --keep, and in it {program} why --serve"


def looking_around(ready: Ready, directory: str, program: str) -> Iterator[str]:
    """Return how to use the cluster that was kept; `program` is the command that runs this program."""
    yield "The cluster keeps running:"
    yield f"  export KUBECONFIG={ready.kubeconfig}"
    yield f"  alias kubectl={ready.kubectl}"
    yield "Try:"
    yield f"  kubectl -n {demo_scene.NAMESPACE} describe pod {demo_scene.IMPOSSIBLE_POD}"
    yield "  kubectl get pv -L topology.kubernetes.io/zone -o wide"
    node = demo_scene.node_names()[0][0]
    yield f"  kubectl get pv,pvc,sc,node,pod -A -o json | {program} match -f - --node {node}"
    yield f"  {program} why --serve     # zones, nodes, volumes and what waits, in the browser"
    yield f"The controller logs to {ready.controller_log}; its metrics are at {ready.metrics}."
    yield f"The scheduler logs to {ready.scheduler_log}."
    yield f"To stop it: {program} dev devcluster down --directory {directory}"


def _faulty(snapshot: Snapshot, verdicts: Mapping[str, Verdict], *, kept: bool) -> Iterator[tuple[str, str]]:
    """Yield the volumes, in quarantine or not, that the driver reports as unhealthy or elsewhere, with its report."""
    for name, volume in sorted(snapshot.volumes.items()):
        why = _fault(volume, verdicts)
        if why and in_quarantine(volume, Annotations()) is kept:
            yield name, f"{format_quantity(volume.capacity)} in {zone_of_volume(snapshot, volume)}: {why}"


def _listed(faulty: Iterable[tuple[str, str]], taken: Collection[str]) -> Iterator[str]:
    lines = [f"  {name:<20} {why}" for name, why in faulty if name not in taken]
    yield from lines or ["  none"]


def _fault(volume: Volume, verdicts: Mapping[str, Verdict]) -> str:
    verdict = verdicts.get(volume.name)
    if verdict is None:
        return ""
    if verdict.unhealthy:
        return f"{verdict.state}: {verdict.message}"
    return contradiction(verdict.topology, volume.node_affinity) or ""
