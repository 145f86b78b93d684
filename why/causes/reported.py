"""What other components report in Events: quoted, with their source.

Events are checked last, because they expire and their texts change between releases: objects come first. A text is
recognised by a part that its component cannot omit, such as a gRPC code.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from binder.matching.matching import binding_mode, class_of
from binder.matching.rejection import Reason
from binder.reporting.rejection_note import parse_rejection_note
from kube.objects.model import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, Claim, Pod, value_of
from kube.plain_text import shell
from kube.rules.csi_migration import driver_of_provisioner
from kube.rules.duration import age_text
from why.causes.drivers.logs import PROVISIONER, logs_or_workloads
from why.causes.finding import Finding, Step
from why.causes.objects import claim_link, on_claim, on_pod, pod_link, with_default_class
from why.causes.texts.table import explained
from why.facts.details import EventRecord
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link

_MAX_QUOTE_CHARACTERS: Final = 1024
"""As long as the note of an Event may be: what is at fault often stands at the end of an error that others wrap."""

PV_CONTROLLER: Final = "persistentvolume-controller"
"""It reports ProvisioningFailed for a class that does not exist, which the class itself shows."""

_CONTROLLER: Final = "/pvc-prebinder"
"""How our controller's name as a reporter ends; the annotation prefix precedes it."""

_OF_PROVISIONERS: Final = (
    (re.compile(r"claim(?:\.Spec\.| )Selector is not supported"), Reason.SELECTOR_ON_DYNAMIC_CLASS),
    (
        # What a copy can never be: for another driver, or of another volume mode.
        re.compile(r"is not handled by CSI driver|same volume mode for cloning|modifies the mode of the source volume"),
        Reason.REQUEST_NOT_SUPPORTED,
    ),
    (
        re.compile(
            r"getting handle for DataSource|snapshot \S+ (?:not bound|is not Ready)|must have a status of Bound"
        ),
        Reason.DATA_SOURCE_NOT_READY,
    ),
    (
        re.compile(
            r"code = (?:InvalidArgument|OutOfRange)|infeasible error|CSI driver does not support"
            r"|does not match driver name|specified in parameters|unknown parameter key"
            # Of provisioners without CSI, which have no gRPC codes.
            r"|^failed to provision volume (?!.*rpc error: ).*(?:only supports? |not supported|does not support )"
            r"|does not support block volume provisioning"
        ),
        Reason.REQUEST_NOT_SUPPORTED,
    ),
    (re.compile(r"code = ResourceExhausted|insufficient available space"), Reason.INSUFFICIENT_STORAGE),
    (re.compile(r"not in allowed topologies|is not in requisite"), Reason.TOPOLOGY_NOT_ALLOWED),
    (
        re.compile(
            r"no topology key found|no available topology|do(?:es)? not match topology keys|not found on any nodes"
            r"|failed to get selected CSINode"
        ),
        Reason.DRIVER_NOT_ON_NODE,
    ),
    (re.compile(r"node \"[^\"]+\" not found"), Reason.SELECTED_NODE_STALE),
    (re.compile(r"rpc error: code = \w+"), Reason.BACKEND_ERROR),
)
"""Texts of external-provisioner (controller.go there) and of others, the specific ones before `rpc error`, with which
most begin.
"""

_TRIED_AGAIN: Final = timedelta(minutes=10)
"""The scheduler tries a pod again after five minutes at the latest."""

_MAY_STILL_RUN: Final = re.compile(r"code = (?:Canceled|DeadlineExceeded|Unavailable|Aborted)")

_ADVICE: Final[Mapping[Reason, str]] = {
    Reason.REQUEST_NOT_SUPPORTED: "the driver will never accept this request: change the claim or the class",
    Reason.INSUFFICIENT_STORAGE: "add capacity to the backend, or request less",
    Reason.SELECTOR_ON_DYNAMIC_CLASS: "a selector is immutable: delete the claim (it has no data yet) and create it "
    "without one",
    Reason.DATA_SOURCE_NOT_READY: "make the source usable; a ReferenceGrant has to allow one of another namespace",
    Reason.BACKEND_ERROR: "an error of the driver or of its storage: see the driver's logs",
    Reason.TOPOLOGY_NOT_ALLOWED: "use only topology keys of the driver, as CSINodes list them, in the "
    "allowedTopologies of the class",
    Reason.DRIVER_NOT_ON_NODE: "let the driver's node plugin run on that node: it reports the node's topology, which "
    "the node has to have as labels",
}

_EXTENDER: Final = re.compile(
    r"Post \"?https?://[^\"]*/?(?:filter|prioritize)|extender.*(?:rejected|timeout|deadline)", re.IGNORECASE
)
_REJECTED_BY_EXTENDER: Final = re.compile(
    rf"claim \S+ would get (?:a new )?volume.*?: (?P<code>{Reason.RESERVED_FOR_OTHER}|{Reason.UNHEALTHY})\b[^,]*,? "
    r"(?P<why>[^,.]*)"
)
"""Our extender's reasons against a node (scheduler.extender.rules), as kube-scheduler repeats them."""

_CODES: Final = frozenset(Reason) - {Reason.EXPLANATION_PENDING}
_MAX_REJECTIONS: Final = 4

DEFAULT_SCHEDULER: Final = "default-scheduler"
_OWN_WORDS: Final = re.compile(
    r"^(?!.*(?:nodes? (?:are|is) available|no nodes available|PreBind|unbound immediate|persistentvolumeclaim \"))"
    r".*\S",
    re.DOTALL,
)
"""Not those of kube-scheduler, under whatever name it runs: its verdicts are computed here."""

_OF_SCHEDULERS: Final[Mapping[str, str]] = {
    "fargate-scheduler": "Fargate mounts EFS only: let EC2 nodes run the pod, by a namespace or labels that no Fargate "
    "profile selects, or give it a volume of EFS",
}
"""What helps where a scheduler rejects what its nodes can never do."""

_NO_FREE_STORAGE: Final = re.compile(r"did not have enough free storage")

_BIND_TIMEOUT: Final = re.compile(
    r"running PreBind plugin \"?VolumeBinding|timed out waiting for the condition|provisioning failed for PVC"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure that a provisioner reported about a claim, and what it amounts to."""

    code: Reason
    event: EventRecord


def provisioner_failure(facts: Facts, claim: Claim) -> Failure | None:
    """Return the last failure of the claim's provisioner (ProvisioningFailed in controller.go there)."""
    for event in facts.events_of("PersistentVolumeClaim", claim.key):
        if event.reason == "Provisioning" and event.type == "Normal":
            continue
        if _is_of_an_earlier_choice(facts, claim, event):
            continue
        code = next((code for pattern, code in _OF_PROVISIONERS if pattern.search(event.note)), None)
        if code is None and event.reason == "ProvisioningFailed" and event.reporter != PV_CONTROLLER:
            code = Reason.BACKEND_ERROR  # Its secret or its parameters, for example.
        if code is not None:
            return Failure(code, event)
    return None


def rejected_by_provisioner(facts: Facts, claim: Claim) -> Finding | None:
    """The provisioner tried and reports a failure, which is all that is known."""
    failure = provisioner_failure(facts, claim)
    if failure is None:
        return None
    reporter = failure.event.reporter or "the provisioner"
    step = _after_failure(facts, claim, failure)
    finding = Finding(
        failure.code,
        f"{reporter} failed to provision the volume.",
        (claim_link(claim), Link("Provisioner", reporter, failure.event.reason)),
        (quoted(facts, failure.event),),
        (step,),
    )
    about = {"namespace": claim.namespace, "storage_class": class_of(claim)}
    return _with_its_risk(explained(finding, "provision", failure.event.note, **about), failure)


def _after_failure(facts: Facts, claim: Claim, failure: Failure) -> Step:
    """Return where what the provisioner rejects is to be seen, or its own log. The Event itself is quoted already."""
    note = _ADVICE.get(failure.code, "")
    wanted = with_default_class(facts, claim) if facts.has(Source.CLASSES) else claim
    storage_class = facts.snapshot.classes.get(class_of(wanted))
    if storage_class is not None and failure.code in {Reason.REQUEST_NOT_SUPPORTED, Reason.TOPOLOGY_NOT_ALLOWED}:
        return Step(shell("kubectl get storageclass {} -o yaml", storage_class.name), note)
    if failure.code in {Reason.REQUEST_NOT_SUPPORTED, Reason.SELECTOR_ON_DYNAMIC_CLASS, Reason.DATA_SOURCE_NOT_READY}:
        return Step(f"{on_claim('get', claim)} -o yaml", note)
    if failure.code is Reason.DRIVER_NOT_ON_NODE:
        return Step("kubectl get csinodes -o custom-columns=NODE:.metadata.name,DRIVERS:.spec.drivers[*].name", note)
    reporter = failure.event.reporter
    driver = reporter.partition("_")[0] if storage_class is None else driver_of_provisioner(storage_class.provisioner)
    return logs_or_workloads(facts, driver, PROVISIONER, note, reporter)


def _is_of_an_earlier_choice(facts: Facts, claim: Claim, event: EventRecord) -> bool:
    """Whether the provisioner failed for a node that the scheduler had chosen, and no node was chosen for long since.

    After such a failure it removes the annotation, and the scheduler tries again at once (rescheduleProvisioning in
    controller.go of sig-storage-lib-external-provisioner): if it does not, something else is in its way now.
    """
    end = facts.events_end or facts.now
    if value_of(claim.annotations, SELECTED_NODE) is not None or event.last is None or end - event.last < _TRIED_AGAIN:
        return False
    if not facts.has(Source.CLASSES):
        return False
    mode = binding_mode(with_default_class(facts, claim), facts.snapshot.classes)
    return mode == WAIT_FOR_FIRST_CONSUMER


def _with_its_risk(finding: Finding, failure: Failure) -> Finding:
    """Return the finding with a warning if the call may not be over. An error that explains itself keeps its advice."""
    if not _MAY_STILL_RUN.search(failure.event.note):
        return finding
    risk = "the call may still be running in the backend: do not move the claim elsewhere yet"
    (step,) = finding.next
    plain = _ADVICE.get(failure.code, "")
    note = step.note.replace(plain, risk, 1) if plain and plain in step.note else f"{step.note}; {risk}"
    return replace(finding, next=(replace(step, note=note),))


def reported_by_other_scheduler(facts: Facts, pod: Pod) -> Finding | None:
    """A scheduler that is not Kubernetes' own rejects the pod by rules of its own: only its words say why."""
    words = None if pod.scheduler_name == DEFAULT_SCHEDULER else of_scheduler(facts, pod, _OWN_WORDS)
    if words is None:
        return None
    step = Step(
        f"{on_pod('get', pod)} -o yaml",
        _OF_SCHEDULERS.get(
            pod.scheduler_name,
            f"{pod.scheduler_name} decides about this pod by rules of its own: change what it names, or create the "
            "pod for another scheduler",
        ),
    )
    return Finding(
        Reason.NO_NODE_FITS,
        f"{pod.scheduler_name} reports: {words.found}",
        (pod_link(pod), Link("Scheduler", pod.scheduler_name, "rejects the pod")),
        (words,),
        (step,),
    )


def extender_unavailable(facts: Facts, pod: Pod) -> Finding | None:
    """kube-scheduler cannot call an extender that is not ignorable (extender.go: a filter error fails the pod)."""
    words = of_scheduler(facts, pod, _EXTENDER)
    if words is None:
        return None
    return Finding(
        Reason.EXTENDER_UNAVAILABLE,
        "The scheduler cannot reach an extender that is not ignorable, so it schedules no pod.",
        (pod_link(pod), Link("Scheduler", pod.scheduler_name, "extender unavailable")),
        (words,),
        (Step("kubectl get pods -A -l app.kubernetes.io/name=pvc-prebinder", "is the extender running?"),),
    )


def rejected_by_extender(facts: Facts, pod: Pod) -> Finding | None:
    """Nodes fit by Kubernetes' rules, and pvc-prebinder's extender rejects them because of their volumes."""
    words = of_scheduler(facts, pod, _REJECTED_BY_EXTENDER)
    rejected = None if words is None else _REJECTED_BY_EXTENDER.search(words.found)
    if words is None or rejected is None:
        return None
    code = Reason(rejected["code"])
    is_reserved = code is Reason.RESERVED_FOR_OTHER
    message = "reserved for another claim" if is_reserved else "unhealthy"
    note = "a reservation ends by itself when it expires or its pod is gone" if is_reserved else "repair the volume"
    return Finding(
        code,
        f"The volumes that the pod's claims would get on nodes that fit are {message}.",
        (pod_link(pod), Link("Scheduler", pod.scheduler_name, "calls the extender of pvc-prebinder")),
        (words,),
        (Step("kubectl get pv -o yaml | grep -e '^    name:' -e reserved-for: -e health:", note),),
    )


def rejected_by_controller(facts: Facts, pod: Pod) -> Finding | None:
    """The pod has our gate, and the controller's last Event tells why no volumes are reserved for it.

    The gate only shows that it waits; the controller has planned all claims of the pod together, and knows the rule.
    """
    if not facts.annotations.carries_gate(pod):
        return None
    event = next((event for event in facts.events_of("Pod", pod.key) if event.reporter.endswith(_CONTROLLER)), None)
    rejection = None if event is None else parse_rejection_note(event.note)
    if event is None or rejection is None or rejection.code not in _CODES:
        return None
    whose = f"Event {event.reason} of {event.reporter}"
    state = "has not bound its volumes" if rejection.begun else "reserves no volumes for the pod"
    return Finding(
        Reason(rejection.code),
        f"pvc-prebinder {state}, so the pod keeps its scheduling gate. {rejection.step}".rstrip(),
        (pod_link(pod, "SchedulingGated"), Link("Scheduler", "pvc-prebinder", rejection.code)),
        tuple(Evidence(whose, "", line) for line in rejection.rejections[:_MAX_REJECTIONS]) or (quoted(facts, event),),
        (
            Step(
                on_pod("describe", pod),
                "shows the whole Event; the gate goes with its cause",
            ),
        ),
    )


def bind_timeout(facts: Facts, pod: Pod) -> Finding | None:
    """Binding the pod's volumes took too long, and its claims show no cause (PreBind in volume_binding.go, 600 s)."""
    words = of_scheduler(facts, pod, _BIND_TIMEOUT)
    if words is None:
        return None
    return Finding(
        Reason.BIND_TIMEOUT,
        "The scheduler chose a node, and the pod's volumes were not bound in time.",
        (pod_link(pod),),
        (words,),
        (Step(shell("kubectl -n {} get pvc", pod.namespace), "the scheduler retries automatically"),),
    )


def no_free_storage(facts: Facts, pod: Pod) -> Finding | None:
    """The scheduler found no room for the pod's new volumes, and CSIStorageCapacities could not be read to see why.

    Source: ErrReasonNotEnoughSpace in volumebinding/binder.go.
    """
    if facts.has(Source.CAPACITIES):  # Then these are the answer.
        return None
    words = of_scheduler(facts, pod, _NO_FREE_STORAGE)
    if words is None:
        return None
    return Finding(
        Reason.INSUFFICIENT_STORAGE,
        "The scheduler found no node where the driver has room for the pod's new volumes.",
        (pod_link(pod),),
        (words,),
        (Step("kubectl get csistoragecapacities -A", "add capacity, or request less"),),
    )


def quoted(facts: Facts, event: EventRecord) -> Evidence:
    """Return an Event as evidence: its source, its age, and its text."""
    age = f", {age_text(facts.now - event.last)} ago" if event.last is not None else ""
    words = f'"{_shortened(event.note)}"'
    return Evidence(f"Event {event.reason} of {event.reporter or 'an unknown component'}{age}", "", words)


def last_words(facts: Facts, kind: str, key: str) -> tuple[Evidence, ...]:
    """Return the last Event about an object, or else what a pod's scheduler wrote into its condition."""
    message = _scheduler_message(facts, key) if kind == "Pod" else ""
    event = next(iter(facts.events_of(kind, key)), None)
    if event is None or (is_of_scheduler(event) and not _is_up_to_date(event, message)):
        return _of_condition(key, message)
    return (quoted(facts, event),)


def events_with(facts: Facts, pattern: re.Pattern[str]) -> Iterator[tuple[str, EventRecord]]:
    """Yield the Events with this text, and the key of their object."""
    for (_, key), events in sorted(facts.events.items()):
        for event in events:
            if pattern.search(event.note):
                yield key, event


def of_scheduler(facts: Facts, pod: Pod, pattern: re.Pattern[str]) -> Evidence | None:
    """Return the scheduler's last message about the pod, if it has this text.

    The pod's condition is never older than an Event about it, and does not expire.
    """
    message = _scheduler_message(facts, pod.key)
    if message and not pattern.search(message):
        return None
    events = (event for event in facts.events_of("Pod", pod.key) if is_of_scheduler(event))
    last = next(events, None)
    if last is not None and pattern.search(last.note) and _is_up_to_date(last, message):
        return quoted(facts, last)
    return next(iter(_of_condition(pod.key, message)), None)


def _is_up_to_date(event: EventRecord, message: str) -> bool:
    """Whether an Event of a scheduler says what the pod's condition says, which may have no message.

    Reports within six minutes become one Event with the note of the first (getKey in
    client-go/tools/events/event_broadcaster.go). A long note is cut (truncateMessage in scheduler/schedule_one.go).
    """
    return not message or message.startswith(event.note.removesuffix(" ..."))


def is_of_scheduler(event: EventRecord) -> bool:
    """Whether a scheduler has written the Event. Karpenter writes some of that reason, too."""
    return event.reason == "FailedScheduling" and not event.reporter.startswith("karpenter")


def _scheduler_message(facts: Facts, pod_key: str) -> str:
    details = facts.pods.get(pod_key)
    conditions = () if details is None else details.conditions
    return next((each.message for each in conditions if each.type == "PodScheduled" and each.status == "False"), "")


def _of_condition(pod_key: str, message: str) -> tuple[Evidence, ...]:
    return (Evidence(f"pod/{pod_key} condition PodScheduled", "", f'"{_shortened(message)}"'),) if message else ()


def _shortened(note: str) -> str:
    words = " ".join(note.split())
    return words if len(words) <= _MAX_QUOTE_CHARACTERS else words[:_MAX_QUOTE_CHARACTERS] + "..."
