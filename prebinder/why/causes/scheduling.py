"""Causes between a pod and its scheduler: missing claims, scheduling gates, a scheduler that is not there."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from binder.matching.rejection import Reason
from kube.configuration.nearest import did_you_mean
from kube.objects.model import SELECTED_NODE, Claim, Pod, value_of
from prebinder.why.causes.finding import Finding, Step
from prebinder.why.causes.objects import age_text, claim_link, named, pod_link, pod_object, users_of
from prebinder.why.facts.facts import Facts, Source
from prebinder.why.report.report import Evidence, Link

_KNOWN_SCHEDULER_LEASES: Final[Mapping[str, str]] = {"default-scheduler": "kube-scheduler"}
"""Scheduler name -> name of the Lease its replicas elect a leader by, where the two differ."""

_PATIENCE: Final = timedelta(seconds=10)
"""How long a scheduler that works may take to say something of a new pod."""

_ALIVE: Final = 60.0
"""Seconds since a Lease was renewed: four times what leader election allows."""


def claim_not_found(facts: Facts, pod: Pod) -> Finding | None:
    """The pod names a claim that does not exist (`persistentvolumeclaim "X" not found`, volume_binding.go)."""
    claims = facts.need(Source.CLAIMS).claims
    for volume in pod.claims:
        key = f"{pod.namespace}/{volume.name}"
        if key in claims:
            continue
        if volume.ephemeral:
            message = f'Claim "{volume.name}" of the pod\'s ephemeral volume has not been created yet.'
            step = Step(f"kubectl -n {pod.namespace} describe pod {pod.name}", "Events say why it cannot be created")
        else:
            there = [claim.name for claim in claims.values() if claim.namespace == pod.namespace]
            meant = did_you_mean(volume.name, there).strip(" ;.").replace("did you mean", "Did you mean")
            message = f'The pod uses claim "{volume.name}", which does not exist in namespace {pod.namespace}.'
            message += f" {meant}" if meant else ""
            step = Step(f"kubectl -n {pod.namespace} get pvc", "create the claim, or correct its name in the pod")
        return Finding(
            Reason.CLAIM_NOT_FOUND,
            message,
            (pod_link(pod), Link("PersistentVolumeClaim", key, "not found")),
            (Evidence(pod_object(pod, "spec.volumes"), f"claim {volume.name}", "no such claim"),),
            (step,),
        )
    return None


def scheduling_gated(facts: Facts, pod: Pod) -> Finding | None:
    """A scheduling gate keeps the pod out of the queue (KEP-3521); whoever put it there has to lift it."""
    others = facts.annotations.other_gates(pod)
    ours = facts.annotations.carries_gate(pod)
    if not (others or ours):
        return None
    gates = [*others, *([facts.annotations.gate] if ours else [])]
    who = "pvc-prebinder, when it holds the pod's volumes" if ours and not others else f"the owner of {named(others)}"
    step = Step(f"kubectl -n {pod.namespace} describe pod {pod.name}", "its Events say what the gate waits for")
    if ours and not others:
        step = Step(
            "kubectl -n pvc-prebinder-system get deploy,lease", "is the controller running, and does it hold its Lease?"
        )
    return Finding(
        Reason.POD_GATED,
        f"The pod carries a scheduling gate, which has to be lifted by {who}.",
        (pod_link(pod, "SchedulingGated"),),
        (Evidence(pod_object(pod, "spec.schedulingGates"), "none", ", ".join(gates)),),
        (step,),
    )


def scheduler_not_running(facts: Facts, pod: Pod) -> Finding | None:
    """Nobody schedules for `spec.schedulerName`: no verdict on the pod, no Event, no Lease that is renewed."""
    name = pod.scheduler_name
    if pod.unschedulable or pod.nominated_node or _was_considered(facts, pod):
        return None
    if pod.created is None or facts.now - pod.created < _PATIENCE:
        return None
    facts.need(Source.LEASES)
    wanted = {name, _KNOWN_SCHEDULER_LEASES.get(name, name)}
    leases = [lease for lease in facts.leases.values() if lease.name in wanted]
    renewed = max((lease.renewed for lease in leases if lease.renewed is not None), default=None)
    if renewed is not None and (facts.now - renewed).total_seconds() < _ALIVE:
        return None
    if renewed is None and not leases and _schedules_others(facts, name):
        return None
    found = "no Lease of it" if renewed is None else f"its Lease was last renewed {age_text(facts.now - renewed)} ago"
    known = named(sorted({other.scheduler_name for other in facts.snapshot.pods.values() if other.node_name}))
    return Finding(
        Reason.SCHEDULER_NOT_RUNNING,
        f'Scheduler "{name}" is not running: it has never looked at the pod, and {found} is there.'
        if renewed is None
        else f'Scheduler "{name}" is not running: {found}.',
        (pod_link(pod, "Pending"), Link("Scheduler", name, "not running")),
        (
            Evidence(pod_object(pod, "spec.schedulerName"), "a scheduler that runs", name),
            *((Evidence("pods on nodes", name, f"scheduled by {known}"),) if known else ()),
        ),
        (Step(f"kubectl get pods,leases -A | grep -i {_KNOWN_SCHEDULER_LEASES.get(name, name)}"),),
    )


def bypasses_scheduler(facts: Facts, claim: Claim) -> Finding | None:
    """A pod with spec.nodeName uses a claim that waits for a scheduler to choose its node (kubernetes#89953)."""
    if claim.volume_name or value_of(claim.annotations, SELECTED_NODE) is not None:
        return None
    pod = next((pod for pod in users_of(facts, claim) if pod.node_name), None)
    if pod is None or claim.key in facts.need(Source.VOLUMES).volumes_by_claim:
        return None
    return Finding(
        Reason.POD_BYPASSES_SCHEDULER,
        f"Pod {pod.name} sets spec.nodeName, so no scheduler chooses a volume or a node for its claim.",
        (claim_link(claim), pod_link(pod, f"on node {pod.node_name}")),
        (
            Evidence(pod_object(pod, "spec.nodeName"), "not set", pod.node_name),
            Evidence(f"pvc/{claim.key} metadata.annotations", SELECTED_NODE, "not set"),
        ),
        (
            Step(
                f"kubectl -n {pod.namespace} delete pod {pod.name}",
                "then create it with a nodeSelector for kubernetes.io/hostname instead of nodeName",
            ),
        ),
    )


def _was_considered(facts: Facts, pod: Pod) -> bool:
    return any(event.reason in {"FailedScheduling", "Preempted"} for event in facts.events_of("Pod", pod.key))


def _schedules_others(facts: Facts, name: str) -> bool:
    """Whether pods that name the scheduler have nodes: then it works, or did; without a Lease nothing else tells."""
    facts.need(Source.ALL_PODS)
    return any(pod.node_name and pod.scheduler_name == name for pod in facts.snapshot.pods.values())
