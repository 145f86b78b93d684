"""What attachdetach-controller and the kubelet report about a pod's volumes, and the causes that these words name."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from binder.matching.rejection import Reason
from kube.objects.model import Claim, Pod, Volume
from kube.plain_text import shell
from kube.store.snapshot import Snapshot
from why.causes.drivers.workloads import look_for, registration
from why.causes.finding import Finding, Step
from why.causes.objects import claim_link, on_pod, pod_link, pod_object, volume_link
from why.causes.reported import quoted
from why.facts.details import EventRecord
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link

_VOLUME: Final = re.compile(r'volume "([^"]+)"')
FAILED: Final[Mapping[str, Reason]] = {
    "FailedAttachVolume": Reason.ATTACH_FAILED,
    "FailedMount": Reason.MOUNT_FAILED,
    "FailedMapVolume": Reason.MOUNT_FAILED,
    "VolumePermissionChangeInProgress": Reason.MOUNT_FAILED,
}
_NO_DRIVER: Final = re.compile(
    r"driver name (?P<kubelet>[\w.-]+) not found in the list of registered CSI drivers"
    r"|CSINode \S+ does not contain driver (?P<attacher>[\w.-]*\w)"
)
"""Of csi_client.go in pkg/volume/csi, and of csi_handler.go in external-attacher."""

_NO_ANSWER: Final = re.compile(r"dial unix \S+\.sock")
_NOT_FOUND: Final = re.compile(r'(?P<kind>secret|configmap) "(?P<name>[^"]+)" not found')
_NO_PATH: Final = re.compile(r'path "(?P<path>[^"]+)" does not exist')
_OVER: Final = frozenset({"Pulling", "Pulled", "Failed", "BackOff", "Created", "Started", "FailedCreatePodSandBox"})
"""What the kubelet reports about a pod only after its volumes are mounted (syncPod in kubelet.go)."""

_SUB_PATH: Final = re.compile(r"subPath\b.* for volumeMount")
"""A path within a volume that is mounted (makeMounts in kubelet_pods.go), of which a container is not created."""

_SUMMARY: Final = re.compile(
    r"^Unable to (?:attach or )?mount volumes\b.*(?:timed out waiting for the condition|context deadline exceeded)$"
)
"""Of syncPod in kubelet.go, with the error of WaitForAttachAndMount in volume_manager.go."""

_REPEATED: Final = timedelta(minutes=5)
"""A mount that fails is tried again after two minutes at the latest (nestedpendingoperations of the kubelet)."""

_TRIED_AGAIN: Final = "; the kubelet then tries again"

_CREATED: Final = frozenset({"Created", "Started"})


def cause_in(facts: Facts, pod: Pod, event: EventRecord) -> Finding | None:
    """Return the cause that a report of a failure names, None if it is to be read as it is."""
    return (
        without_driver(facts, pod, quoted(facts, event))
        or _without_object(facts, pod, event)
        or _without_disk(facts, pod, event)
    )


def without_driver(facts: Facts, pod: Pod, words: Evidence) -> Finding | None:
    """As `driver_not_on_node`, in the words of others: for a CSINode that is missing, or after the Events expired."""
    match = _NO_DRIVER.search(words.found)
    if match is None:
        return None
    driver = match["kubelet"] or match["attacher"]
    step, runs = registration(facts, driver, pod.node_name, _TRIED_AGAIN)
    return Finding(
        Reason.DRIVER_NOT_ON_NODE,
        f"CSI driver {driver} is not registered on node {pod.node_name}.",
        (pod_link(pod, f"on node {pod.node_name}"), Link("Node", pod.node_name, f"without {driver}")),
        (words, *runs),
        (step,),
    )


def path_not_prepared(facts: Facts, pod: Pod) -> Finding | None:
    """A container waits for a path within a volume, by its status: that does not expire, as Events do."""
    details = facts.pods.get(pod.key)
    words = next((words for words in details.waits if _SUB_PATH.search(words)), "") if details is not None else ""
    if not words:
        return None
    return Finding(
        Reason.MOUNT_FAILED,
        f"A volume of the pod cannot be mounted on node {pod.node_name}.",
        (pod_link(pod, f"on node {pod.node_name}"),),
        (Evidence(pod_object(pod, "status.containerStatuses"), "", f'"{words}"'),),
        (Step(f"{on_pod('get', pod)} -o yaml", "its volumeMounts name the subPath: see whether the volume has it"),),
    )


def let_it_run(driver: str, pod: Pod) -> Step:
    return Step(
        look_for(driver, "daemonset"),
        f"let the node plugin of {driver} run on node {pod.node_name}{_TRIED_AGAIN}",
    )


def volume_in(facts: Facts, pod: Pod, event: EventRecord) -> Volume | None:
    """Return the volume that an Event names, or the only one that the pod has of claims."""
    volumes = [each for _, each in volumes_of(pod, facts.snapshot)]
    named = next((each for each in volumes if f'volume "{each.name}"' in event.note), None)
    return volumes[0] if named is None and 'volume "' not in event.note and len(volumes) == 1 else named


def unavailable(facts: Facts, pod: Pod, event: EventRecord) -> str:
    """Return the driver whose socket on the node nothing listens to, empty if it is another failure."""
    if not _NO_ANSWER.search(event.note):
        return ""
    named_there = set(_VOLUME.findall(event.note))
    return next((each.driver for _, each in volumes_of(pod, facts.snapshot) if each.name in named_there), "")


def _without_object(facts: Facts, pod: Pod, event: EventRecord) -> Finding | None:
    """A volume of the pod is made of a Secret or ConfigMap that does not exist."""
    match = _NOT_FOUND.search(event.note)
    if match is None:
        return None
    kind, name = {"secret": "Secret", "configmap": "ConfigMap"}[match["kind"]], match["name"]
    return Finding(
        Reason.MOUNT_FAILED,
        f'The pod mounts {kind} "{name}", which does not exist.',
        (pod_link(pod, f"on node {pod.node_name}"), Link(kind, f"{pod.namespace}/{name}", "not found")),
        (quoted(facts, event),),
        (
            Step(
                shell("kubectl -n {} get {}", pod.namespace, match["kind"]), "create it, or correct its name in the pod"
            ),
        ),
    )


def _without_disk(facts: Facts, pod: Pod, event: EventRecord) -> Finding | None:
    """The path of a local volume is not there: its disk is not mounted on the node, or was replaced.

    Source: getFileType in pkg/volume/util/hostutil/hostutil.go, called for local volumes by local.go.
    """
    match = _NO_PATH.search(event.note)
    if match is None:
        return None
    named_there = set(_VOLUME.findall(event.note))
    local = (pair for pair in volumes_of(pod, facts.snapshot) if pair[1].source == "local")
    claim, volume = next((pair for pair in local if pair[1].name in named_there), (None, None))
    if claim is None or volume is None:
        return None
    return Finding(
        Reason.MOUNT_FAILED,
        f"Volume {volume.name} is a local disk, and its path {match['path']} does not exist on node {pod.node_name}.",
        (pod_link(pod, f"on node {pod.node_name}"), claim_link(claim), volume_link(volume)),
        (quoted(facts, event),),
        (
            Step(
                shell("kubectl describe pv {}", volume.name),
                "mount its disk there again; if the node or the disk was replaced, the data is lost: only then delete "
                "the claim and the pod, so that the claim is created again and gets another volume",
            ),
        ),
    )


def has_begun(facts: Facts, pod: Pod) -> bool:
    """Whether the pod's status shows that its volumes were mounted: the kubelet has come to a container."""
    details = facts.pods.get(pod.key)
    return details is not None and details.began


def are_mounted(facts: Facts, pod: Pod) -> bool:
    """Whether the kubelet reports something that comes after the mounts, and no failure since."""
    if has_begun(facts, pod):
        return True
    reasons = (event.reason for event in facts.events_of("Pod", pod.key))
    return next((reason in _OVER for reason in reasons if reason in _OVER or reason in FAILED), False)


def failures(facts: Facts, pod: Pod) -> Iterator[EventRecord]:
    """Yield the Events about failures of attaching and mounting that are not over, the latest first.

    They are over with a later Event, when the pod or the VolumeAttachment shows what comes after them, or if they are
    not repeated while another one is. What the kubelet says every two minutes about all volumes of a pod, that the time
    is over, comes last: the error itself is an Event of its own.
    """
    every = [*_failures_in_volumes(facts, pod), *_failed(facts, pod)]
    times = [event.last for event in every if event.last is not None]
    latest = max(times, default=None)
    current = (event for event in every if latest is None or event.last is None or latest - event.last < _REPEATED)
    yield from sorted(current, key=lambda event: bool(_SUMMARY.search(event.note)))


def _failed(facts: Facts, pod: Pod) -> Iterator[EventRecord]:
    if has_begun(facts, pod):
        return
    attached: set[str] = set()
    for event in facts.events_of("Pod", pod.key):
        volumes = set(_VOLUME.findall(event.note))
        if event.reason in _OVER:
            return
        if event.reason == "SuccessfulAttachVolume":
            attached |= volumes
        elif event.reason in FAILED and not (attached and volumes <= attached) and not _is_attached(facts, pod, event):
            yield event


def _failures_in_volumes(facts: Facts, pod: Pod) -> Iterator[EventRecord]:
    """Yield the Events about a path within a volume until the container was created."""
    for event in facts.events_of("Pod", pod.key):
        if event.reason in _CREATED:
            return
        if event.reason == "Failed" and _SUB_PATH.search(event.note):
            yield event


def _is_attached(facts: Facts, pod: Pod, event: EventRecord) -> bool:
    """Whether a volume that could not be attached to the pod's node is attached there by now."""
    volumes = set(_VOLUME.findall(event.note))
    if event.reason != "FailedAttachVolume" or not volumes or not facts.has(Source.ATTACHMENTS):
        return False
    attachments = facts.snapshot.attachments.values()
    return volumes <= {each.volume_name for each in attachments if each.attached and each.node_name == pod.node_name}


def volumes_of(pod: Pod, snapshot: Snapshot) -> list[tuple[Claim, Volume]]:
    claims = (snapshot.claims.get(key) for key in pod.claim_keys)
    bound = ((claim, snapshot.volumes.get(claim.volume_name)) for claim in claims if claim is not None)
    return [(claim, volume) for claim, volume in bound if volume is not None]
