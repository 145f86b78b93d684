"""Runs the checks in their order and makes the answer of one object out of what they find."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from binder.matching.rejection import Reason
from kube.objects.model import Claim, Pod
from prebinder.why.causes.finding import Finding, Step
from prebinder.why.causes.objects import CLAIM, POD, claim_link, phase_of, pod_link, users_of, volume_link
from prebinder.why.causes.precedence import CLAIM_CHECKS, POD_CHECKS, POD_FIRST_CHECKS
from prebinder.why.facts.facts import Facts, Source, Unread
from prebinder.why.report.report import Item, Skipped

S = TypeVar("S")


@dataclass(slots=True)
class _Examination:
    """One object being looked at. `blocked` are the sources without which some check could say nothing."""

    facts: Facts
    blocked: set[Source] = field(default_factory=set)

    def first(self, checks: Iterable[Callable[[Facts, S], Finding | None]], subject: S) -> Finding | None:
        """Return what the first check finds that finds anything. Raises Unread for sources nobody tried to read."""
        for check in checks:
            finding = self.attempt(check, subject)
            if finding is not None:
                return finding
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
    """Return why the claim is not bound, or that nothing is wrong. Raises Unread."""
    examination = _Examination(facts.for_one())
    return _item(claim, _of_claim(examination, claim), examination)


def explain_pod(facts: Facts, pod: Pod) -> Item:
    """Return why the pod does not run, as far as its storage or its place is to blame. Raises Unread."""
    examination = _Examination(facts.for_one())
    return _item(pod, _of_pod(examination, pod), examination)


def _of_claim(examination: _Examination, claim: Claim) -> Finding | None:
    finding = _of_claim_alone(examination, claim)
    if finding is not None:
        return finding
    waiting = examination.attempt(_waiting_users, claim)
    if waiting is not None:
        return waiting
    for pod in examination.facts.snapshot.pods.values():
        if claim.key in pod.claim_keys and not (pod.node_name or pod.finished):
            behind = _of_pod(examination, pod, without=claim.key)
            if behind is not None:
                return replace(behind, links=(claim_link(claim), *behind.links))
    return None


def _waiting_users(facts: Facts, claim: Claim) -> Finding | None:
    """Not a cause: makes sure that pods were read before they are looked through."""
    any(users_of(facts, claim))
    return None


def _of_claim_alone(examination: _Examination, claim: Claim) -> Finding | None:
    if claim.fully_bound and claim.phase != "Lost":
        volume = examination.facts.snapshot.volumes.get(claim.volume_name)
        links = (claim_link(claim), *((volume_link(volume),) if volume is not None else ()))
        return Finding(Reason.BOUND, f"Bound to volume {claim.volume_name}.", links, problem=False)
    return examination.first(CLAIM_CHECKS, claim)


def _of_pod(examination: _Examination, pod: Pod, without: str = "") -> Finding | None:
    """`without` is a claim that was looked at already."""
    if pod.node_name or pod.finished:
        says = f"on node {pod.node_name}" if pod.node_name else pod.phase
        return Finding(Reason.SCHEDULED, f"The pod is {says}.", (pod_link(pod, says),), problem=False)
    finding = examination.first(POD_FIRST_CHECKS, pod)
    if finding is not None:
        return finding
    for key in pod.claim_keys:
        claim = examination.facts.snapshot.claims.get(key)
        if claim is None or key == without:
            continue
        finding = _of_claim_alone(examination, claim)
        if finding is not None and finding.problem:
            return replace(finding, links=(pod_link(pod), *finding.links))
    return examination.first(POD_CHECKS, pod)


def _item(subject: Claim | Pod, finding: Finding | None, examination: _Examination) -> Item:
    facts, kind = examination.facts, CLAIM if isinstance(subject, Claim) else POD
    finding = finding or _unexplained(kind, subject.key, examination)
    return Item(
        kind=kind,
        namespace=subject.namespace,
        name=subject.name,
        code=finding.code,
        problem=finding.problem,
        message=finding.message,
        status=phase_of(subject) if isinstance(subject, Claim) else subject.phase,
        since=subject.created,
        causes=finding.links,
        evidence=finding.evidence,
        next=tuple(step.command for step in finding.next),
        advice=tuple(step.note for step in finding.next),
        skipped=_skipped(facts),
        sources=tuple(sorted(source for source in facts.asked if source in facts.read)),
    )


def _skipped(facts: Facts) -> tuple[Skipped, ...]:
    """Return what was asked for and could not be read: the answer might be another with it."""
    missing = sorted(source for source in facts.asked if source in facts.skipped)
    return tuple(Skipped(source, facts.skipped[source]) for source in missing)


def _unexplained(kind: str, key: str, examination: _Examination) -> Finding:
    """Return that no check found anything: inconclusive if something could not be read, else it is on its way."""
    namespace, _, name = key.partition("/")
    look = Step(f"kubectl -n {namespace} describe {'pod' if kind == POD else 'pvc'} {name}")
    if examination.blocked:
        missing = ", ".join(f"{source} ({examination.facts.skipped[source]})" for source in sorted(examination.blocked))
        return Finding(Reason.INCONCLUSIVE, f"Cannot tell without {missing}.", next=(look,), problem=False)
    return Finding(Reason.PROGRESSING, "Nothing is in its way: it is being worked on.", next=(look,), problem=False)
