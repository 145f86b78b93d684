"""What the demo says at its end: counts, times, refusals with their evidence, and how to look around."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from csi.topology import contradiction
from csi.verdict import Verdict
from kube.model import Volume
from kube.quantity import format_quantity
from kube.snapshot import Snapshot
from prebinder import demo_scene
from prebinder.demo_stage import Ready
from prebinder.demo_view import ClaimRow, zone_of_volume
from prebinder.demo_watch import SeenEvent


def summary(rows: Sequence[ClaimRow], snapshot: Snapshot, verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    """Say how many claims were bound, how fast, where each pod's volumes are, and what was passed over."""
    bound = [row for row in rows if row.state == "Bound"]
    refused = [row for row in rows if row.state.startswith("Refused")]
    times = sorted(row.settled_after for row in bound if row.settled_after is not None)
    running = sum(pod.phase == "Running" for pod in snapshot.pods.values())
    yield f"{len(bound)} of {len(rows)} claims bound, {len(refused)} refused; {running} pods running."
    if times:
        yield f"Claim created to bound: median {median(times):.1f} s, longest {times[-1]:.1f} s."
    yield ""
    yield "Every pod has all of its volumes in one zone:"
    for pod in sorted({row.pod for row in bound}):
        mine = [row for row in bound if row.pod == pod]
        zones = ", ".join(sorted({row.zone for row in mine}))
        yield f"  {pod:<12} {zones:<8} {', '.join(row.volume for row in mine)}"
    yield ""
    yield "Passed over, although Kubernetes would take them:"
    taken = {row.volume for row in bound}
    for name, why in passed_over(snapshot, verdicts):
        if name not in taken:
            yield f"  {name:<22} {why}"
    if wrong := [row for row in bound if _fault(snapshot.volumes[row.volume], verdicts)]:
        yield "  and yet in use, because kube-scheduler was faster (no scheduling gate): " + ", ".join(
            f"{row.volume} by {row.pod}" for row in wrong
        )
    sizes = Counter(format_quantity(volume.capacity) for volume in snapshot.volumes.values() if not volume.claim)
    yield ""
    yield "Volumes still free: " + ", ".join(f"{count} x {size}" for size, count in sorted(sizes.items()))


def passed_over(snapshot: Snapshot, verdicts: Mapping[str, Verdict]) -> Iterator[tuple[str, str]]:
    """Give the volumes that the driver speaks ill of, or contradicts, and what it says."""
    for name, volume in sorted(snapshot.volumes.items()):
        if why := _fault(volume, verdicts):
            yield name, f"{format_quantity(volume.capacity)} in {zone_of_volume(snapshot, volume)}: {why}"


def refusals(events: Mapping[str, SeenEvent]) -> Iterator[str]:
    """Say which pods get nothing and why, in the words of the Events on them."""
    for pod, event in sorted(events.items()):
        yield ""
        yield f"{pod} waits:"
        yield from (f"  {line}" for line in event.note.splitlines())


def looking_around(ready: Ready, directory: str) -> Iterator[str]:
    """Say how to use the cluster that was kept."""
    yield "The cluster stays up:"
    yield f"  export KUBECONFIG={ready.kubeconfig}"
    yield f"  alias kubectl={ready.kubectl}"
    yield "Try:"
    yield f"  kubectl -n {demo_scene.NAMESPACE} describe pod {demo_scene.IMPOSSIBLE_POD}"
    yield "  kubectl get pv -L topology.kubernetes.io/zone -o wide"
    yield f"  kubectl get pv,pvc,pod,sc -A -o json | pvc-prebinder match -f - --node {demo_scene.node_names()[0][0]}"
    yield f"The controller logs to {ready.controller_log}; its metrics are at {ready.metrics}."
    yield f"Stop it: pvc-prebinder devcluster down --directory {directory}"


def _fault(volume: Volume, verdicts: Mapping[str, Verdict]) -> str:
    verdict = verdicts.get(volume.name)
    if verdict is None:
        return ""
    if verdict.sick:
        return f"{verdict.state}: {verdict.message}"
    return contradiction(verdict.topology, volume.node_affinity) or ""
