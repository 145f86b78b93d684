"""Causes between a pod and its scheduler: missing claims, scheduling gates, a scheduler that does not run."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from binder.matching.matching import binding_mode
from binder.matching.rejection import Reason
from kube.configuration.nearest import did_you_mean
from kube.objects.model import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, Claim, Pod, value_of
from kube.plain_text import shell
from why.causes.claims.creation import creation_rejected
from why.causes.claims.unread_class import last_report
from why.causes.finding import Finding, Step
from why.causes.leases import ALIVE, has_lapsed, lapse_text, last_renewal
from why.causes.objects import (
    claim_link,
    named,
    on_pod,
    own_volume,
    pod_link,
    pod_object,
    pods_on,
    users_of,
    with_default_class,
)
from why.causes.reported import is_of_scheduler, quoted
from why.causes.termination import behind
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link

_KNOWN_SCHEDULER_LEASES: Final[Mapping[str, str]] = {"default-scheduler": "kube-scheduler"}
"""Scheduler name -> name of the Lease for its leader election, where the two differ."""

_PATIENCE: Final = timedelta(seconds=10)
"""How long a working scheduler, or the controller of ephemeral volumes, may do nothing about a new pod."""

_LONG_UNTRIED: Final = timedelta(minutes=2)
"""After this time a pod that no scheduler has tried shows by itself that none works for it."""


def claim_not_found(facts: Facts, pod: Pod) -> Finding | None:
    """The pod names a claim that does not exist (`persistentvolumeclaim "X" not found`, volume_binding.go)."""
    claims = facts.need(Source.CLAIMS).claims
    for volume in pod.claims:
        key = f"{pod.namespace}/{volume.name}"
        if key in claims:
            continue
        rejected = creation_rejected(facts, pod.namespace, volume.name)
        if rejected is not None:
            return replace(rejected, links=(pod_link(pod), *rejected.links))
        if volume.ephemeral and pod.created is not None and facts.now - pod.created < _PATIENCE:
            message = f'Claim "{volume.name}" of the pod\'s ephemeral volume is about to be created.'
            return Finding(Reason.PROGRESSING, message, (pod_link(pod),), problem=False)
        if volume.ephemeral:
            message = f'Claim "{volume.name}" of the pod\'s ephemeral volume has not been created yet.'
            step = Step(on_pod("describe", pod), "Events show why it cannot be created")
        else:
            there = [claim.name for claim in claims.values() if claim.namespace == pod.namespace]
            meant = did_you_mean(volume.name, there).strip(" ;.").replace("did you mean", "Did you mean")
            message = f'The pod uses claim "{volume.name}", which does not exist in namespace {pod.namespace}.'
            elsewhere = sorted(claim.namespace for claim in claims.values() if claim.name == volume.name)
            message += f" {meant}" if meant else f" Namespace {elsewhere[0]} has one." if elsewhere else ""
            step = Step(
                shell("kubectl -n {} get pvc", pod.namespace), "create the claim, or correct its name in the pod"
            )
        return Finding(
            Reason.CLAIM_NOT_FOUND,
            message,
            (pod_link(pod), Link("PersistentVolumeClaim", key, "not found")),
            tuple(
                Evidence(pod_object(pod, "spec.volumes"), f"claim {each.name}", "no such claim")
                for each in pod.claims[pod.claims.index(volume) :]
                if f"{pod.namespace}/{each.name}" not in claims
            ),
            (step,),
        )
    return None


def claim_rejected(facts: Facts, pod: Pod) -> Finding | None:
    """As above if claims could not be read: the API server has rejected one, as its controller reports."""
    for volume in pod.claims:
        rejected = creation_rejected(facts, pod.namespace, volume.name)
        if rejected is not None and f"{pod.namespace}/{volume.name}" not in facts.snapshot.claims:
            return replace(rejected, links=(pod_link(pod), *rejected.links))
    return None


def claim_not_owned(facts: Facts, pod: Pod) -> Finding | None:
    """A claim has the name of the pod's ephemeral volume and was not created for it (`was not created for pod`).

    Source: VolumeIsForPod in k8s.io/component-helpers/storage/ephemeral.
    """
    claims = facts.need(Source.CLAIMS).claims
    for volume in pod.claims:
        claim = claims.get(f"{pod.namespace}/{volume.name}")
        if not volume.ephemeral or claim is None or claim.deleting or claim.owner == pod.uid:
            continue
        return Finding(
            Reason.CLAIM_NOT_OWNED,
            f"Claim {claim.name} has the name that the pod's ephemeral volume needs, and was not created for this pod.",
            (pod_link(pod), claim_link(claim)),
            (Evidence(f"pvc/{claim.key} metadata.ownerReferences", f"pod {pod.name}", "another owner, or none"),),
            (
                Step(
                    on_pod("delete", pod),
                    "create it again with another name of the pod or of the volume; the claim keeps its data",
                ),
            ),
        )
    return None


def gated_by_others(facts: Facts, pod: Pod) -> Finding | None:
    """A scheduling gate keeps the pod out of the queue (KEP-3521); the component that set it has to remove it."""
    others = facts.annotations.other_gates(pod)
    if not others:
        return None
    step = Step(on_pod("describe", pod), "its Events show what the gate waits for")
    return _gated(facts, pod, f"the owner of {named(others)} has to remove it", step)


def gated(facts: Facts, pod: Pod) -> Finding | None:
    """Our own gate keeps the pod out of the queue, and nothing shows why the controller has not removed it."""
    if not facts.annotations.carries_gate(pod):
        return None
    step = Step(
        "kubectl -n pvc-prebinder-system get deploy,lease", "is the controller running, and does it hold its Lease?"
    )
    return _gated(
        facts,
        pod,
        "pvc-prebinder removes it once the pod's volumes are reserved, and those it committed are Bound",
        step,
    )


def _gated(facts: Facts, pod: Pod, removal: str, step: Step) -> Finding:
    ours = [facts.annotations.gate] if facts.annotations.carries_gate(pod) else []
    gates = ", ".join([*facts.annotations.other_gates(pod), *ours])
    return Finding(
        Reason.POD_GATED,
        f"The pod carries a scheduling gate; {removal}.",
        (pod_link(pod, "SchedulingGated"),),
        (Evidence(pod_object(pod, "spec.schedulingGates"), "none", gates),),
        (step,),
    )


def scheduler_not_running(facts: Facts, pod: Pod) -> Finding | None:
    """No scheduler runs for `spec.schedulerName`: its Lease has expired, or there is none and no verdict on the pod."""
    if facts.annotations.carries_gate(pod):  # No scheduler looks at it.
        return None
    name = pod.scheduler_name
    is_known = pod.unschedulable or bool(pod.nominated_node) or _last_look(facts, pod) is not None
    if pod.created is None or (facts.now - pod.created < _PATIENCE and not _lapsed_before(facts, pod.created, name)):
        return None
    if not facts.has(Source.LEASES):
        if is_known:
            return None
        if _was_tried(facts, pod) or facts.now - pod.created < _LONG_UNTRIED:
            facts.need(Source.LEASES)
    renewed = last_renewal(facts, _lease_names(name))
    if renewed is None and (is_known or _schedules_others(facts, name)):
        return None
    if renewed is not None and _is_alive(facts, pod, renewed):
        return None
    no_lease = "it has no Lease" if facts.has(Source.LEASES) else "its Lease could not be read"
    symptom = no_lease if renewed is None else lapse_text(facts, renewed)
    known = named(sorted({other.scheduler_name for other in facts.snapshot.pods.values() if other.node_name}))
    return Finding(
        Reason.SCHEDULER_NOT_RUNNING,
        f'Scheduler "{name}" is not running: it has never considered the pod, and {symptom}.'
        if renewed is None
        else f'Scheduler "{name}" is not running: {symptom}.',
        (pod_link(pod, "Pending"), Link("Scheduler", name, "not running")),
        (
            Evidence(pod_object(pod, "spec.schedulerName"), "a scheduler that runs", name),
            *((Evidence("pods on nodes", name, f"scheduled by {known}"),) if known else ()),
        ),
        (
            Step(
                shell("kubectl get pods,leases -A | grep -i {}", _KNOWN_SCHEDULER_LEASES.get(name, name)),
                "start that scheduler, or create the pod again with a schedulerName that runs",
            ),
        ),
    )


def nominated(facts: Facts, pod: Pod) -> Finding | None:
    """Pods with a lower priority are terminating to make room for this one (status.nominatedNodeName). Normal."""
    node = pod.nominated_node
    if not node:
        return None
    facts.need(Source.NODES)
    facts.has(Source.ALL_PODS)
    victims = [other for other in facts.snapshot.pods.values() if other.node_name == node and other.deleting]
    if not victims or node not in facts.snapshot.nodes:
        return None
    stuck = (behind(facts, victim, pod_link(pod), Link("Node", node, "nominated")) for victim in victims)
    finding = next((each for each in stuck if each is not None), None)
    if finding is not None:
        return finding
    return Finding(
        Reason.PROGRESSING,
        f"The pod preempts pods with a lower priority on node {node}, which have not terminated yet.",
        (pod_link(pod), Link("Node", node, "nominated")),
        (Evidence(f"pods on {node}", "", f"{len(victims)} terminating"),),
        (Step(pods_on(node), "wait until these pods have ended"),),
        problem=False,
    )


def bypasses_scheduler(facts: Facts, claim: Claim) -> Finding | None:
    """Only pods with spec.nodeName use a claim that waits for a scheduler to choose its node (kubernetes#89953)."""
    if not _waits_for_choice(facts, claim):
        return None
    pods = [pod for pod in users_of(facts, claim) if not pod.deleting]
    if not pods or not all(pod.node_name for pod in pods):
        return None
    return _bypassed(claim, pods[0])


def reported_bypass(facts: Facts, claim: Claim) -> Finding | None:
    """As above if the class may not be read: the PV controller waits for a first consumer, and each has its node."""
    report = last_report(facts, claim)
    if report is None or report.reason != "WaitForFirstConsumer" or claim.volume_name:
        return None
    pods = [pod for pod in users_of(facts, claim) if not pod.deleting]
    if not pods or not all(pod.node_name for pod in pods) or value_of(claim.annotations, SELECTED_NODE) is not None:
        return None
    finding = _bypassed(claim, pods[0])
    return replace(finding, evidence=(*finding.evidence, quoted(facts, report)))


def bypassed_scheduler(facts: Facts, pod: Pod) -> Finding | None:
    """As above for the pod, which may be one of several: then the scheduler of another one chooses."""
    facts.need(Source.CLAIMS)
    claims = (facts.snapshot.claims.get(key) for key in pod.claim_keys)
    claim = next((each for each in claims if each is not None and _waits_for_choice(facts, each)), None)
    return None if claim is None else _bypassed(claim, pod)


def _waits_for_choice(facts: Facts, claim: Claim) -> bool:
    """Whether the claim has neither a volume nor a node that a scheduler has chosen, and its class waits for one."""
    if claim.volume_name or value_of(claim.annotations, SELECTED_NODE) is not None:
        return False
    classes = facts.need(Source.CLASSES).classes
    mode = binding_mode(with_default_class(facts, claim), classes)
    return mode == WAIT_FOR_FIRST_CONSUMER and own_volume(facts, claim) is None


def _bypassed(claim: Claim, pod: Pod) -> Finding:
    is_later = claim.created is not None and pod.created is not None and claim.created > pod.created
    why = "was assigned to a node before the claim existed" if is_later else "sets spec.nodeName"
    return Finding(
        Reason.POD_BYPASSES_SCHEDULER,
        f"Pod {pod.name} {why}, so no scheduler chooses a volume or a node for its claim.",
        (claim_link(claim), pod_link(pod, f"on node {pod.node_name}")),
        (
            Evidence(pod_object(pod, "spec.nodeName"), "not set", pod.node_name),
            Evidence(f"pvc/{claim.key} metadata.annotations", SELECTED_NODE, "not set"),
        ),
        (
            Step(
                on_pod("delete", pod),
                "a scheduler then chooses again, once the pod's controller or you have created it"
                if is_later
                else "then create it with a nodeSelector for kubernetes.io/hostname instead of nodeName",
            ),
        ),
    )


def _lease_names(scheduler: str) -> frozenset[str]:
    return frozenset({scheduler, _KNOWN_SCHEDULER_LEASES.get(scheduler, scheduler)})


def _lapsed_before(facts: Facts, created: datetime, scheduler: str) -> bool:
    """Whether the scheduler had stopped when the pod was created."""
    renewed = last_renewal(facts, _lease_names(scheduler))
    return renewed is not None and created - renewed > ALIVE


def _was_tried(facts: Facts, pod: Pod) -> bool:
    """Whether a scheduler has written its condition into the pod, as it does after its first attempt."""
    details = facts.pods.get(pod.key)
    return details is None or any(condition.type == "PodScheduled" for condition in details.conditions)


def _last_look(facts: Facts, pod: Pod) -> datetime | None:
    """Return when a scheduler last reported about the pod, None if it never did or that has expired."""
    events = facts.events_of("Pod", pod.key)
    looks = (event for event in events if event.reason == "Preempted" or is_of_scheduler(event))
    return next((event.last or pod.created for event in looks), None)


def _is_alive(facts: Facts, pod: Pod, renewed: datetime) -> bool:
    """Whether a scheduler works by its Lease, or without one although an old one exists."""
    derived = _last_look(facts, pod)
    return not has_lapsed(facts, renewed) or (derived is not None and derived - renewed > ALIVE)


def _schedules_others(facts: Facts, name: str) -> bool:
    """Whether other pods of this scheduler have nodes: then it works, or did; without a Lease nothing else shows it."""
    facts.need(Source.ALL_PODS)
    return any(pod.node_name and pod.scheduler_name == name for pod in facts.snapshot.pods.values())
