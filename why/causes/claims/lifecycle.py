"""Causes in the life of a claim and its volume: deletion, expansion, and claims for one pod only."""

from collections.abc import Mapping, Sequence
from typing import Final

from binder.matching.evidence import quantity_text
from binder.matching.rejection import Reason
from kube.objects.model import READ_WRITE_ONCE_POD, Claim, Pod
from kube.plain_text import shell
from kube.rules.duration import age_text
from why.causes.drivers.logs import RESIZER, logs_or_workloads
from why.causes.finding import Finding, Step
from why.causes.leases import lapsed_lease, look_for_pv_controller, resizer_lease
from why.causes.objects import (
    claim_link,
    claim_object,
    named,
    on_claim,
    pod_link,
    users_of,
)
from why.causes.pods.other_users import end_of
from why.causes.reported import quoted
from why.causes.termination import held_up_by
from why.causes.texts.table import explained
from why.facts.details import ClaimDetails, Condition, EventRecord
from why.facts.facts import Facts, Source
from why.report.report import Evidence

_OF_PODS: Final = "kubernetes.io/pvc-protection"
_AS_SNAPSHOT_SOURCE: Final = "snapshot.storage.kubernetes.io/pvc-as-source-protection"
_AS_CLONE_SOURCE: Final = "provisioner.storage.kubernetes.io/cloning-protection"
"""Finalizers of pvc_protection_controller.go, of external-snapshotter and of external-provisioner."""

_RETAIN: Final = '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'

_RESIZE_FAILED: Final = frozenset(
    {"ControllerResizeError", "ControllerResizeInfeasible", "NodeResizeError", "NodeResizeInfeasible"}
)
_NODE_IS_NEXT: Final = frozenset({"FileSystemResizePending", "NodeResizePending"})
_RESIZING: Final = _NODE_IS_NEXT | {"Resizing", "ControllerResizeInProgress", "NodeResizeInProgress"}
"""Conditions of a claim, and values of its status.allocatedResourceStatuses (k8s.io/api/core/v1)."""

_RESIZED: Final = frozenset({"FileSystemResizeRequired", "VolumeResizeSuccessful", "FileSystemResizeSuccessful"})
"""Events after which an earlier failure of the resizer is over (events.go in external-resizer, and of the kubelet)."""


def terminating(facts: Facts, claim: Claim) -> Finding | None:
    """The claim is being deleted and waits for its finalizers (pvc_protection_controller.go); no pod may use it."""
    if not claim.deleting:
        return None
    if facts.everywhere:
        facts.has(Source.ALL_PODS)
    details = facts.claims.get(claim.key)
    finalizers = details.finalizers if details is not None else ()
    since = "" if details is None or details.deleted is None else f" for {age_text(facts.now - details.deleted)}"
    users = [pod for pod in users_of(facts, claim) if pod.node_name] if facts.has(Source.PODS) else []
    users = users or _ended_users(facts, claim)
    held, step = _held_by_nothing_running(facts, claim, finalizers) if not users else _held_by(facts, claim, users)
    finding = Finding(
        Reason.CLAIM_DELETING,
        f"The claim has been terminating{since}, and {held}." if since else f"The claim is being deleted, and {held}.",
        (
            claim_link(claim),
            *(pod_link(pod, pod.phase if pod.finished else f"on node {pod.node_name}") for pod in users[:1]),
        ),
        (Evidence(claim_object(claim, "metadata.finalizers"), "none", ", ".join(finalizers) or "none known"),),
        (step,),
    )
    return held_up_by(facts, users[0], finding) if users and all(pod.deleting for pod in users) else finding


def _ended_users(facts: Facts, claim: Claim) -> list[Pod]:
    """Return the pods that have ended and still name the claim: they protect it until they are deleted."""
    pods = facts.snapshot.pods.values()
    return [pod for pod in pods if pod.finished and pod.node_name and claim.key in pod.claim_keys]


def _held_by_nothing_running(facts: Facts, claim: Claim, finalizers: Sequence[str]) -> tuple[str, Step]:
    """Return what the finalizers stand for that are left although no pod uses the claim."""
    if _AS_SNAPSHOT_SOURCE in finalizers:
        return "a VolumeSnapshot of it is not done", Step(
            shell("kubectl -n {} get volumesnapshot", claim.namespace),
            "the claim goes when its snapshots are ready, or those that fail are deleted",
        )
    if _AS_CLONE_SOURCE in finalizers:
        return "another claim is being filled from it", Step(
            shell("kubectl -n {} get pvc", claim.namespace),
            "the claim goes when the copy is Bound, or that claim is deleted",
        )
    if set(finalizers) == {_OF_PODS} and facts.has(Source.PODS):
        return f"no pod uses it: kube-controller-manager, which removes {_OF_PODS}, has not", look_for_pv_controller()
    return "its finalizers are not removed", Step(
        f"{on_claim('get', claim)} -o yaml",
        "the component that set each finalizer has to remove it; removing one by hand may leak or lose the volume",
    )


def _held_by(facts: Facts, claim: Claim, users: Sequence[Pod]) -> tuple[str, Step]:
    """Return what holds a claim that is being deleted, and what lets it go.

    To delete pods that have ended is the next command only if no data goes with the claim.
    """
    names = [pod.name for pod in users[:3]]
    keeps, data = _data_after(facts, claim)
    shown = shell("kubectl -n {} get pod {}", claim.namespace, names)
    if not users[0].finished:
        step = Step(shown, f"the claim goes when these pods have ended; {data}")
        return f"pod {named(pod.name for pod in users)} still uses it", step
    step = Step(
        shell("kubectl -n {} delete pod {}", claim.namespace, names),
        f"the claim goes with these pods, and so do their logs; {data}",
    )
    if not keeps:
        step = Step(shown, f"{data}. Then `{step.command}` lets the claim go, with these pods and their logs")
    return f"pod {named(pod.name for pod in users)}, which has ended, still names it", step


def _data_after(facts: Facts, claim: Claim) -> tuple[bool, str]:
    """Return whether the claim's data outlives it, as far as is known, and what is to be said about that."""
    if not claim.volume_name:
        return True, "it has no volume yet"
    retain = shell("kubectl patch pv {} -p {}", claim.volume_name, _RETAIN)
    before = f"If the data matters, run `{retain}` first"
    volume = facts.snapshot.volumes.get(claim.volume_name) if facts.has(Source.VOLUMES) else None
    if volume is None:
        return False, f"its volume and the data go too if its reclaim policy is Delete. {before}"
    if volume.reclaim_policy == "Retain":
        return True, f"volume {volume.name} and its data stay"
    return False, f"volume {volume.name} and its data go too, by its reclaim policy {volume.reclaim_policy}. {before}"


def resize(facts: Facts, claim: Claim) -> Finding | None:
    """A bound claim that is to be expanded and is not yet (conditions of external-resizer and of the kubelet,
    KEP-1790).
    """
    details = facts.claims.get(claim.key)
    if details is None or not claim.bind_completed or not details.capacity or claim.request <= details.capacity:
        return None
    states = _states_of_expansion(details)
    failed = next((states[kind] for kind in sorted(states.keys() & _RESIZE_FAILED)), None)
    waiting = next((states[kind] for kind in sorted(states.keys() & _RESIZING)), None)
    sizes = f"from {quantity_text(details.capacity)} to {quantity_text(claim.request)}"
    state = Evidence(claim_object(claim, "status.capacity"), quantity_text(claim.request), _words(failed or waiting))
    event = None if failed is not None else _reported_failure(facts, claim)
    if failed is not None or event is not None:
        of_node = failed.type.startswith("Node") if failed is not None else event is not None and _is_of_node(event)
        note = f"it is tried again automatically; or lower the request, above {quantity_text(details.capacity)}"
        if of_node:
            note = "the volume has grown, and its file system not: the Events of a pod that uses it tell why"
        elif failed is None:  # resize in expand_and_recover.go goes on with the size that it began with.
            note = "it is tried again automatically; a lower request is ignored until the driver gives a final answer"
        reporter = "the kubelet" if of_node else "its resizer"
        finding = Finding(
            Reason.RESIZE_FAILED,
            f"The volume cannot grow {sizes}: {failed.type if failed is not None else f'{reporter} reports an error'}.",
            (claim_link(claim),),
            (state, *((quoted(facts, event),) if event is not None else ())),
            (_after_failure(facts, claim, note, of_node=of_node),),
        )
        error = failed.message if failed is not None else event.note if event is not None else ""
        return explained(finding, "resize", error, namespace=claim.namespace)
    return _resize_pending(facts, claim, waiting, state, sizes)


def _after_failure(facts: Facts, claim: Claim, note: str, *, of_node: bool) -> Step:
    """Return what tells more than the error itself, which is quoted: the resizer's log, or a pod on its node."""
    if of_node:
        return Step(shell("kubectl -n {} get pods", claim.namespace), note)
    return log_of_resizer(facts, claim, note)


def log_of_resizer(facts: Facts, claim: Claim, note: str) -> Step:
    """Return where the resizer of the claim's volume tells what it does."""
    volume = facts.snapshot.volumes.get(claim.volume_name) if facts.has(Source.VOLUMES) else None
    if volume is None or not volume.driver:
        return Step(on_claim("describe", claim), note)
    return logs_or_workloads(facts, volume.driver, RESIZER, note)


def file_system_waits(facts: Facts, claim: Claim) -> bool:
    """Whether the volume has grown, and its file system grows when a pod uses the claim."""
    details = facts.claims.get(claim.key)
    return details is not None and bool(_states_of_expansion(details).keys() & _NODE_IS_NEXT)


def _states_of_expansion(details: ClaimDetails) -> Mapping[str, Condition]:
    """Return the conditions of a claim that hold, and how far its expansion is by its status, which has no message."""
    states = {details.expansion: Condition(details.expansion, "True")} if details.expansion else {}
    return {**states, **{each.type: each for each in details.conditions if each.status == "True"}}


def _resize_pending(facts: Facts, claim: Claim, waiting: Condition | None, state: Evidence, sizes: str) -> Finding:
    """Return that nothing has failed yet. `waiting` is the condition that tells how far it is."""
    step = Step(on_claim("describe", claim), "its Events have the resizer's message")
    evidence: tuple[Evidence, ...] = (state,)
    if waiting is None:
        step = log_of_resizer(facts, claim, "does the driver's resizer run?")
        evidence = (state, *_without_resizer(facts, claim))
    elif waiting.type in _NODE_IS_NEXT and _is_unused(facts, claim):
        step = Step(shell("kubectl -n {} get pods", claim.namespace), "the file system grows when a pod uses the claim")
    message = f"The claim is bound, and its volume has not grown yet {sizes}."
    return Finding(Reason.RESIZE_PENDING, message, (claim_link(claim),), evidence, (step,))


def _reported_failure(facts: Facts, claim: Claim) -> EventRecord | None:
    """Return the last Event of the resizer, or of the kubelet, if it is about a failure.

    external-resizer sets no condition after errors that may be temporary, ResourceExhausted among them (IsFinalError
    in util.go there), nor for a driver that expands only volumes that are not in use.
    """
    for event in facts.events_of("PersistentVolumeClaim", claim.key):
        if event.reason == "VolumeResizeFailed" or _is_of_node(event):
            return event
        if event.reason in _RESIZED:
            return None
    return None


def _is_of_node(event: EventRecord) -> bool:
    return event.reason == "FileSystemResizeFailed"


def _without_resizer(facts: Facts, claim: Claim) -> tuple[Evidence, ...]:
    """Return evidence that the driver's resizer does not run, by the Lease that it holds (main.go there)."""
    volume = facts.snapshot.volumes.get(claim.volume_name) if facts.has(Source.VOLUMES) else None
    if volume is None or not volume.driver:
        return ()
    return lapsed_lease(facts, resizer_lease(volume.driver))


def _is_unused(facts: Facts, claim: Claim) -> bool:
    return facts.has(Source.PODS) and not any(users_of(facts, claim))


def used_by_another_pod(facts: Facts, pod: Pod) -> Finding | None:
    """A ReadWriteOncePod claim of the pod is used by a pod on a node (volume_restrictions.go, KEP-2485)."""
    for key in pod.claim_keys:
        claim = facts.snapshot.claims.get(key)
        if claim is None or READ_WRITE_ONCE_POD not in claim.access_modes:
            continue
        holder = next((user for user in users_of(facts, claim) if user.node_name and user.key != pod.key), None)
        if holder is None:
            continue
        finding = Finding(
            Reason.VOLUME_IN_USE,
            f"Claim {claim.name} is ReadWriteOncePod, and pod {holder.name} uses it"
            f"{', which is being deleted' if holder.deleting else ''}.",
            (pod_link(pod), claim_link(claim), pod_link(holder, f"on node {holder.node_name}")),
            (Evidence(claim_object(claim, "spec.accessModes"), "no other pod", f"in use by pod {holder.name}"),),
            (end_of(facts, holder, pod),),
        )
        return held_up_by(facts, holder, finding)
    return None


def _words(condition: Condition | None) -> str:
    if condition is None:
        return "no condition has the reason"
    return f"{condition.type}: {condition.message}" if condition.message else condition.type
