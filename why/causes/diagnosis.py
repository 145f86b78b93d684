"""Runs the checks in their order and builds the answer about an object from their findings."""

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeVar

from binder.matching.matching import IMMEDIATE, binding_mode
from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, Claim, Pod, Volume, value_of
from kube.plain_text import shell
from kube.rules.duration import age_text
from why.causes.autoscalers.beside import with_autoscalers
from why.causes.claims.creation import creation_rejected
from why.causes.claims.data_sources import original_of
from why.causes.claims.held import held_for_set
from why.causes.claims.lifecycle import file_system_waits
from why.causes.finding import Finding, Step
from why.causes.objects import (
    CLAIM,
    POD,
    STATEFUL_SET,
    VOLUME,
    claim_link,
    claim_object,
    phase_of,
    pod_link,
    pod_object,
    users_of,
    volume_link,
    with_default_class,
)
from why.causes.pods.mount_events import FAILED, has_begun
from why.causes.precedence import (
    BOUND_CLAIM_CHECKS,
    CLAIM_CHECKS,
    DECISIVE,
    LEFT_TO_AUTOSCALER,
    PLACED_POD_CHECKS,
    POD_CHECKS,
    POD_FIRST_CHECKS,
    RUNNING_POD_CHECKS,
    UNREAD_CLAIM_CHECKS,
    UNREAD_POD_CHECKS,
    VOLUME_CHECKS,
)
from why.causes.reported import last_words, quoted
from why.causes.termination import terminating_too_long
from why.facts.facts import Facts, Source, Unread
from why.report.report import ABSENT, Evidence, Item, Skipped

S = TypeVar("S")

_NOTHING_IN_THE_WAY: Final = "No problem found: it is in progress."
_LONG: Final = timedelta(minutes=10)
"""After that time "in progress" is not an answer any more."""

_NOT_OF_A_POD: Final = frozenset(
    {Reason.BOUND, Reason.WAIT_FOR_FIRST_CONSUMER, Reason.RESIZE_PENDING, Reason.RESIZE_FAILED, Reason.MODIFY_PENDING}
)
"""A state of a claim that is no reason for its pod to wait."""


@dataclass(slots=True)
class _Examination:
    """The examination of an object. `blocked` are the sources without which some check could not run."""

    facts: Facts
    blocked: set[Source] = field(default_factory=set)

    def first(self, checks: Iterable[Callable[[Facts, S], Finding | None]], subject: S) -> Finding | None:
        """Return the first finding of the checks. Raises Unread for sources that nothing has tried to read."""
        for check in checks:
            before, self.blocked = self.blocked, set()
            finding = self.attempt(check, subject)
            is_blocked, self.blocked = bool(self.blocked), self.blocked | before
            if finding is not None:
                return finding
            if is_blocked and check in DECISIVE:
                return None
        return None

    def attempt(self, check: Callable[[Facts, S], Finding | None], subject: S) -> Finding | None:
        try:
            return check(self.facts, subject)
        except Unread as unread:
            if not unread.sources <= self.facts.skipped.keys():
                raise Unread(unread.sources - self.facts.skipped.keys()) from unread
            self.blocked |= unread.sources
            return None


def explain_claim(facts: Facts, claim: Claim) -> Item:
    """Return why the claim is not bound, or that there is no problem. Raises Unread."""
    examination = _Examination(facts.for_one())
    return _item(claim, _of_claim(examination, claim), examination)


def explain_pod(facts: Facts, pod: Pod) -> Item:
    """Return why the pod does not run, as far as its storage or its placement is the cause. Raises Unread."""
    examination = _Examination(facts.for_one())
    return _item(pod, _of_pod(examination, pod), examination)


def explain_volume(facts: Facts, volume: Volume) -> Item:
    """Return what blocks the volume, or that there is no problem. Raises Unread."""
    examination = _Examination(facts.for_one())
    finding = examination.first(VOLUME_CHECKS, volume)
    assert finding is not None
    return _item_of(VOLUME, ("", volume.name), finding, examination.facts, (volume.phase, volume.created))


def explain_absent_claim(facts: Facts, namespace: str, name: str) -> Item | None:
    """Return why a claim was not created although a controller tried, None if nothing shows that."""
    facts = facts.for_one()
    finding = creation_rejected(facts, namespace, name)
    return (
        None
        if finding is None
        else _item_of(CLAIM, (namespace, name), finding, facts, (ABSENT, None), (f"{namespace}/{name}",))
    )


def explain_holds(facts: Facts, namespace: str, name: str) -> Item | None:
    """Return what is held for the replicas to come of a StatefulSet; None if nothing says that anything should be."""
    facts = facts.for_one()
    finding = held_for_set(facts, namespace, name)
    return None if finding is None else _item_of(STATEFUL_SET, (namespace, name), finding, facts, ("", None))


def _of_claim(examination: _Examination, claim: Claim) -> Finding | None:
    finding = _of_pod_left(examination, claim)
    if finding is not None:
        return finding
    finding = _of_claim_alone(examination, claim)
    if finding is not None:
        return _of_first_pod(examination, finding, claim) or finding
    waiting = examination.attempt(_waiting_users, claim)
    if waiting is not None:
        return waiting
    snapshot = examination.facts.snapshot
    for pod in (snapshot.pods[key] for key in sorted(snapshot.pods_by_claim.get(claim.key, ()))):
        if not (pod.node_name or pod.deleting):
            behind = _of_pod(examination, pod, without=claim.key)
            if behind is not None:
                return replace(behind, links=(claim_link(claim), *behind.links))
            if not examination.blocked and _waits_for(examination.facts, claim):
                return _waits_for_pod(examination, claim, pod)
    return None


def _of_first_pod(examination: _Examination, finding: Finding, claim: Claim) -> Finding | None:
    """Return why no pod that uses the claim has a node, if that is what the claim's file system waits for to grow."""
    if finding.code is not Reason.RESIZE_PENDING or not file_system_waits(examination.facts, claim):
        return None
    users = [*users_of(examination.facts, claim)] if examination.facts.has(Source.PODS) else []
    if any(pod.node_name for pod in users):
        return None
    causes = (_of_pod(examination, pod, without=claim.key) for pod in users if not pod.deleting)
    cause = next((cause for cause in causes if cause is not None and cause.problem), None)
    return None if cause is None else replace(cause, links=(claim_link(claim, finding.code), *cause.links))


def _of_pod_left(examination: _Examination, claim: Claim) -> Finding | None:
    """Return what is said of a pod with this claim that waits for a new node: what the claim lacks it is to bring."""
    if claim.fully_bound or value_of(claim.annotations, examination.facts.annotations.awaits_node) is None:
        return None
    users = [*users_of(examination.facts, claim)] if examination.facts.has(Source.PODS) else []
    causes = (_left_to_autoscaler(examination, pod) for pod in users)
    cause = next((cause for cause in causes if cause is not None), None)
    return None if cause is None else replace(cause, links=(claim_link(claim), cause.links[0]))


def _left_to_autoscaler(examination: _Examination, pod: Pod) -> Finding | None:
    finding = examination.first(LEFT_TO_AUTOSCALER, pod)
    return None if finding is None else with_autoscalers(examination.facts, pod, finding)


def _waits_for_pod(examination: _Examination, claim: Claim, pod: Pod) -> Finding:
    """Return that the claim waits for its pod, or what is said of the pod itself if that is not normal any more."""
    links = (claim_link(claim), pod_link(pod))
    unexplained = _unexplained(POD, pod.key, pod.created, examination)
    if unexplained.problem or unexplained.code is Reason.INCONCLUSIVE:
        return replace(unexplained, links=links)
    message = f"The claim is bound when pod {pod.name} is scheduled; no problem was found."
    return Finding(Reason.WAIT_FOR_POD_SCHEDULED, message, links, problem=False)


def _waits_for(facts: Facts, claim: Claim) -> bool:
    """Whether the claim is bound only when its pod is scheduled, and no node was chosen for it yet."""
    mode = binding_mode(with_default_class(facts, claim), facts.snapshot.classes)
    return mode == WAIT_FOR_FIRST_CONSUMER and value_of(claim.annotations, SELECTED_NODE) is None


def _waiting_users(facts: Facts, claim: Claim) -> Finding | None:
    """Not a cause: ensures that pods have been read before they are searched."""
    any(users_of(facts, claim))
    return None


def _of_claim_alone(examination: _Examination, claim: Claim) -> Finding | None:
    if claim.fully_bound:
        finding = examination.first(BOUND_CLAIM_CHECKS, claim)
        if finding is not None:
            return finding
        volume = examination.facts.snapshot.volumes.get(claim.volume_name)
        links = (claim_link(claim), *((volume_link(volume),) if volume is not None else ()))
        return Finding(Reason.BOUND, f"Bound to volume {claim.volume_name}.", links, problem=False)
    finding = examination.first(CLAIM_CHECKS, claim)
    if finding is None and examination.blocked:
        finding = examination.first(UNREAD_CLAIM_CHECKS, claim)
    return _followed(examination, finding, claim, {claim.key})


def _followed(examination: _Examination, finding: Finding | None, claim: Claim, seen: Set[str]) -> Finding | None:
    """Return the cause in the claim whose data is to be copied, if that is what the claim waits for."""
    if finding is None or finding.code is not Reason.DATA_SOURCE_NOT_READY:
        return finding
    original = original_of(examination.facts, claim)
    if original is None or original.fully_bound or original.key in seen:
        return finding
    first = examination.first(CLAIM_CHECKS, original)
    behind = _followed(examination, first, original, {*seen, original.key})
    if behind is not None and behind.code is Reason.WAIT_FOR_FIRST_CONSUMER:
        derived, note = finding.next[0], f"create a pod that uses {original.name}: its class binds on first use"
        return replace(finding, evidence=(*finding.evidence, *behind.evidence), next=(replace(derived, note=note),))
    if behind is None or not behind.problem:
        return finding
    # A snapshot is between the two claims; a claim that is copied is the same object as the first one behind.
    before = tuple(link for link in finding.links if link.name != original.key or link.kind != CLAIM)
    return replace(behind, links=(*before, *behind.links))


def _of_pod(examination: _Examination, pod: Pod, without: str = "") -> Finding | None:
    """Examine a pod. `without` is a claim that was examined already."""
    if pod.deleting:
        return examination.attempt(terminating_too_long, pod) or _settled(pod)
    if pod.finished or pod.phase == "Running":
        checks = RUNNING_POD_CHECKS if pod.node_name and not pod.finished else ()
        return examination.first(checks, pod) or _settled(pod)
    finding = examination.first(POD_FIRST_CHECKS, pod)
    if finding is not None:
        return _with_causes_of_claims(examination, finding, pod, without)
    finding = _left_to_autoscaler(examination, pod) or _of_claims_of(examination, pod, without)
    if finding is not None and finding.problem:
        return finding
    if pod.node_name:
        finding = examination.first(PLACED_POD_CHECKS, pod)
        is_known = not examination.blocked or has_begun(examination.facts, pod)
        return finding or (_not_held_up(examination.facts, pod) if is_known else None)
    finding = finding or examination.first(POD_CHECKS, pod) or _overdue_provisioning(examination, pod, without)
    finding = finding or examination.first(UNREAD_POD_CHECKS, pod)
    return None if finding is None else with_autoscalers(examination.facts, pod, finding)


def _with_causes_of_claims(examination: _Examination, finding: Finding, pod: Pod, without: str) -> Finding:
    """Return a problem of a pod with that of its claims as evidence: it remains when the first one is mended."""
    other = _of_claims_of(examination, pod, without) if finding.problem else None
    if other is None or not other.problem:
        return finding
    claims = (f"pvc/{link.name}" for link in other.links if link.kind == CLAIM)
    also = Evidence(next(claims, pod_object(pod)), "", f"{other.code}, too: {other.message}")
    of_others = (each for each in other.evidence if ", too: " in each.found)
    return replace(finding, evidence=(*finding.evidence, also, *of_others))


def _overdue_provisioning(examination: _Examination, pod: Pod, without: str) -> Finding | None:
    """Return what is said of a claim whose volume is being provisioned for the pod, and has been for too long."""
    for key in pod.claim_keys:
        claim = examination.facts.snapshot.claims.get(key)
        if examination.blocked or claim is None or key == without or claim.fully_bound:
            continue
        if value_of(claim.annotations, SELECTED_NODE) is not None:
            unexplained = _unexplained(CLAIM, claim.key, claim.created, examination)
            if unexplained.problem:
                return replace(unexplained, links=(pod_link(pod), claim_link(claim)))
    return None


def _of_claims_of(examination: _Examination, pod: Pod, without: str) -> Finding | None:
    """Return the cause of the first of the pod's claims with a problem, else of the first that is being bound.

    Problems of its other claims are evidence: they remain when the first one is mended.
    """
    problem: Finding | None = None
    being_bound: Finding | None = None
    for key in pod.claim_keys:
        claim = examination.facts.snapshot.claims.get(key)
        if claim is None or key == without:
            continue
        finding = _of_claim_alone(examination, claim)
        if finding is None and not examination.blocked and _holds_up(examination.facts, claim):
            finding = _waits_for_claim(examination, claim)
        if finding is None or finding.code in _NOT_OF_A_POD:
            continue
        chained = replace(finding, links=(pod_link(pod), *finding.links))
        if not finding.problem:
            being_bound = being_bound or chained
        elif problem is None:
            problem = chained
        else:
            other = Evidence(claim_object(claim), "", f"{finding.code}, too: {finding.message}")
            problem = replace(problem, evidence=(*problem.evidence, other))
    return problem or being_bound


def _waits_for_claim(examination: _Examination, claim: Claim) -> Finding:
    """Return that the pod waits for its claim, or what is said of the claim itself if that is not normal any more."""
    unexplained = _unexplained(CLAIM, claim.key, claim.created, examination)
    if unexplained.problem or unexplained.code is Reason.INCONCLUSIVE:
        return replace(unexplained, links=(claim_link(claim),))
    message = f"The scheduler waits until claim {claim.name} is bound; no problem was found."
    return Finding(Reason.IMMEDIATE_CLAIM, message, (claim_link(claim),), problem=False)


def _settled(pod: Pod) -> Finding:
    says = "Terminating" if pod.deleting else f"on node {pod.node_name}" if pod.node_name else pod.phase
    has_ended = pod.finished and not pod.deleting
    message = f"The pod has ended: {pod.phase}." if has_ended else f"The pod is {says}."
    return Finding(Reason.SCHEDULED, message, (pod_link(pod, says),), problem=False)


def _not_held_up(facts: Facts, pod: Pod) -> Finding:
    """Return that a pod on a node has not started, and not because of its volumes; its last Event may say why."""
    message = f"The pod is on node {pod.node_name}; no problem with its volumes was found."
    # Failures to attach or mount are over: otherwise one would be the cause.
    rest = (event for event in facts.events_of(POD, pod.key) if event.reason not in FAILED)
    last = next(rest, None)
    return replace(_settled(pod), message=message, evidence=() if last is None else (quoted(facts, last),))


def _holds_up(facts: Facts, claim: Claim) -> bool:
    """Whether the scheduler waits for the claim to be bound before it considers any node."""
    mode = binding_mode(with_default_class(facts, claim), facts.snapshot.classes)
    return not claim.fully_bound and (mode == IMMEDIATE or bool(claim.volume_name))


def _item(subject: Claim | Pod, finding: Finding | None, examination: _Examination) -> Item:
    kind = CLAIM if isinstance(subject, Claim) else POD
    status = phase_of(subject) if isinstance(subject, Claim) else subject.phase
    finding = finding or _unexplained(kind, subject.key, subject.created, examination)
    keys = (subject.key,) if isinstance(subject, Claim) else subject.claim_keys
    known = examination.facts.snapshot.claims
    unbound = tuple(key for key in keys if key in known and not known[key].bind_finished)
    name, state = (subject.namespace, subject.name), (status, subject.created)
    return _item_of(kind, name, finding, examination.facts, state, unbound)


def _item_of(
    kind: str,
    key: tuple[str, str],
    finding: Finding,
    facts: Facts,
    state: tuple[str, datetime | None],
    claims: tuple[str, ...] = (),
) -> Item:
    return Item(
        kind=kind,
        namespace=key[0],
        name=key[1],
        code=finding.code,
        problem=finding.problem,
        message=finding.message,
        status=state[0],
        since=state[1],
        causes=finding.links,
        evidence=finding.evidence,
        next=tuple(step.command for step in finding.next),
        advice=tuple(step.note for step in finding.next),
        claims=claims,
        sources=tuple(sorted(source for source in facts.used if source in facts.read)),
        skipped=_skipped(facts),
    )


def _skipped(facts: Facts) -> tuple[Skipped, ...]:
    """Return what was requested and could not be read: the answer might be different with it."""
    missing = sorted(source for source in facts.used if source in facts.skipped)
    return tuple(Skipped(source, facts.skipped[source]) for source in missing)


def _unexplained(kind: str, key: str, since: datetime | None, examination: _Examination) -> Finding:
    """Return that no check found anything: inconclusive if something could not be read, else in progress."""
    facts = examination.facts
    namespace, _, name = key.partition("/")
    derived = (Step(shell("kubectl -n {} describe {} {}", namespace, "pod" if kind == POD else "pvc", name)),)
    words = last_words(facts, kind, key)
    is_old = since is not None and facts.now - since > _LONG
    # What would only have refined another answer may be the whole answer if nothing else explains the object.
    unknown = examination.blocked or {source for source in facts.used if is_old and source in facts.skipped}
    if unknown:
        missing = ", ".join(f"{source} ({facts.skipped[source]})" for source in sorted(unknown))
        message = f"Cannot tell without {missing}."
        return Finding(Reason.INCONCLUSIVE, message, evidence=words, next=derived, problem=False)
    if since is not None and is_old:
        message = f"No problem was found, but it has taken {age_text(facts.now - since)}."
        return Finding(Reason.PROGRESSING, message, evidence=words, next=derived)
    return Finding(Reason.PROGRESSING, _NOTHING_IN_THE_WAY, evidence=words, next=derived, problem=False)
