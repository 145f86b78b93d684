"""Events for people, on the pod and its claims: reserved, rejected and why, lost. One for each change, none in between.

No decision depends on them. The reason of a rejection is the word that metrics, logs and the command line use too.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, TypeVar

from binder.matching.rejection import Reason
from binder.model.decision import Finish, Lost, Mode, Provision, Reject, Reserve
from binder.new_nodes.ahead import PodAhead
from binder.reporting.rejection_note import NOTE_BYTES, rejection_note, shortened
from kube.client.event_recorder import EventDraft, EventSink, ObjectRef
from kube.clock import Elapsed
from kube.objects.model import Claim, Pod

T = TypeVar("T")

REPEAT: Final = 60.0
"""Seconds within which one root reason is not reported again."""
CLAIMS_TOLD: Final = 10
"""Maximum number of a pod's claims that receive the pod's Events. With more of them only the pod does; its Event names
them.
"""
RESERVED: Final = "VolumeReserved"
BOUND: Final = "VolumeBound"
LOST: Final = "ReservationLost"
NODE_SELECTED: Final = "NodeSelected"
GATE_KEPT: Final = "SchedulingGateKept"
REJECTED: Final = "WriteRejected"


class Announcer:
    """Publishes Events; remembers the last one of each pod, so that it is not repeated."""

    def __init__(self, sink: EventSink, clock: Elapsed, documentation: str = "") -> None:
        """`documentation` is where the site of the documentation is, empty for Events without links."""
        self._sink = sink
        self._documentation = documentation
        self._clock = clock
        self._published: dict[str, int] = {}
        self._rejected: dict[str, dict[Reason, float]] = {}
        self._seen: dict[str, object] = {}

    def reserved(self, decision: Reserve | Finish) -> None:
        """Report to the pod which volume each claim got. One Event for all: the claims' annotations name their
        volumes.
        """
        bound = isinstance(decision, Finish) or decision.mode is Mode.COMPLETE
        where = f" in zone {decision.zone}" if isinstance(decision, Reserve) and decision.zone else ""
        if isinstance(decision, Reserve) and decision.new_node is not None:
            where += ", for a node that an autoscaler has yet to add there"
        reason, verb = (BOUND, "Bound") if bound else (RESERVED, "Reserved")
        limits = _hint_text(decision)
        if not self._is_news(decision.pod, (reason, limits, tuple(volume.name for volume in decision.volumes))):
            return
        self._rejected.pop(decision.pod.key, None)
        self._seen.pop(decision.pod.key, None)
        link = "to" if bound else "for"
        pairs = ", ".join(f"{placed.volume.name} {link} claim {placed.claim.name}" for placed in decision.placements)
        claims = [_claim_reference(placed.claim) for placed in decision.placements]
        self._publish(
            ObjectRef.of_pod(decision.pod),
            claims[0] if len(claims) == 1 else None,
            "Normal",
            reason,
            shortened(f"{verb} {pairs}{where}{limits}", NOTE_BYTES),
        )

    def node_selected(self, decision: Provision) -> None:
        """Report to the pod for which node its volumes are made, and which existing ones it gets there."""
        if not decision.claims or not self._is_news(decision.pod, (NODE_SELECTED, decision.node, decision.claims)):
            return
        self._rejected.pop(decision.pod.key, None)
        self._seen.pop(decision.pod.key, None)
        claims = ", ".join(claim.name for claim in decision.claims)
        note = f"Selected node {decision.node} for the volumes of {claims}: they are being provisioned"
        if decision.placements:
            chosen = (f"{placement.volume.name} for {placement.claim.name}" for placement in decision.placements)
            note += f". Set aside until then: {', '.join(chosen)}"
        self._publish(ObjectRef.of_pod(decision.pod), None, "Normal", NODE_SELECTED, shortened(note, NOTE_BYTES))

    def rejected(self, decision: Reject, claims: tuple[Claim, ...]) -> None:
        """Report on the pod and its open claims why nothing is reserved; the same reasons are not repeated in a row.

        A root reason is reported once in REPEAT, however its evidence changes in the meantime.
        """
        announced, now = self._rejected.setdefault(decision.pod.key, {}), self._clock.monotonic()
        if announced and decision.reason is Reason.EXPLANATION_PENDING:
            return
        evidence = frozenset(rejection.reason for rejection in decision.rejections) - {decision.reason}
        rejection = (decision.pod.uid, decision.reason, evidence)
        # What was suppressed once is not reported later, when nothing changes any more.
        seen, self._seen[decision.pod.key] = self._seen.get(decision.pod.key), rejection
        if rejection == seen or now - announced.get(decision.reason, -REPEAT) < REPEAT:
            return
        if not self._is_news(decision.pod, rejection):
            return
        announced[decision.reason] = now
        note = rejection_note(decision, self._documentation)
        self._publish(ObjectRef.of_pod(decision.pod), None, "Warning", str(decision.reason), note)
        for claim in _few(claims):
            self._publish(
                _claim_reference(claim), ObjectRef.of_pod(decision.pod), "Warning", str(decision.reason), note
            )

    def lost(self, decision: Reserve | Finish, lost: Lost) -> None:
        note = f"Reservation lost: {lost.why}. Another volume is being chosen"
        if not self._is_news(decision.pod, (LOST, note)):
            return
        self._publish(_claim_reference(lost.placement.claim), ObjectRef.of_pod(decision.pod), "Warning", LOST, note)
        self._publish(ObjectRef.of_pod(decision.pod), None, "Warning", LOST, note)

    def node_late(self, waiting: PodAhead, now: datetime) -> None:
        """Report to a pod that the node has not come for which its volumes were committed, or its gate was removed."""
        if not self._is_news(waiting.pod, (Reason.WAITING_FOR_NEW_NODE, waiting.since)):
            return
        minutes = int((now - waiting.since).total_seconds() // 60)
        given, after = _given(waiting)
        note = (
            f"Waiting for a new node for {minutes} min: {given}, and none fits the pod. See what the autoscaler says "
            f"of the pod: `pvc-prebinder why -n {waiting.pod.namespace} pod/{waiting.pod.name}`. {after}"
        )
        reason = str(Reason.WAITING_FOR_NEW_NODE)
        self._publish(ObjectRef.of_pod(waiting.pod), None, "Warning", reason, shortened(note, NOTE_BYTES))

    def write_rejected(self, pod: Pod, why: str) -> None:
        """Report on the pod how the API server, or a policy in it, rejected a write for its volumes."""
        note = f"The API server rejected a write for the pod's volumes; it is retried: {why}"
        if self._is_news(pod, (REJECTED, why)):
            self._publish(ObjectRef.of_pod(pod), None, "Warning", REJECTED, note)

    def gate_kept(self, pod: Pod, gate: str) -> None:
        note = (
            f"Volumes are reserved, but the controller may not remove the scheduling gate {gate}. Apply the component"
        )
        note += " scheduling-gate of its manifests, which allows it to patch pods, or remove the gate yourself."
        if self._is_news(pod, (GATE_KEPT, note)):
            self._publish(ObjectRef.of_pod(pod), None, "Warning", GATE_KEPT, note)

    def forget(self, pod_key: str) -> None:
        """The pod is gone, or needs nothing any more."""
        self._published.pop(pod_key, None)
        self._rejected.pop(pod_key, None)
        self._seen.pop(pod_key, None)

    def _is_news(self, pod: Pod, news: object) -> bool:
        digest = hash((pod.uid, news))
        if self._published.get(pod.key) == digest:
            return False
        self._published[pod.key] = digest
        return True

    def _publish(
        self,
        regarding: ObjectRef,
        related: ObjectRef | None,
        kind: Literal["Normal", "Warning"],
        reason: str,
        note: str,
    ) -> None:
        self._sink.publish(EventDraft(regarding, related, kind, reason, "Reserve", note))


def _hint_text(decision: Reserve | Finish) -> str:
    """Return why volumes are reserved and not bound although the mode of their classes allows it, empty if they are."""
    if isinstance(decision, Finish) or not decision.limits:
        return ""
    return (
        ". kube-scheduler binds them: the choice of the node depends on fields that are not evaluated here"
        f" ({', '.join(decision.limits)})"
    )


def _given(waiting: PodAhead) -> tuple[str, str]:
    """Return what an autoscaler was given to add a node for, and what that means for others."""
    if not waiting.volumes:
        claims = ", ".join(claim.name for claim in waiting.claims)
        return f"its gate was removed so that an autoscaler adds a node for it and for {claims}", "Nothing is bound yet"
    volumes = ", ".join(volume.name for volume in waiting.volumes)
    where = ", ".join(sorted(f"zone {zone}" for _, zone in waiting.places if zone)) or "reach of them"
    given = f"{volumes} were bound so that an autoscaler adds a node in {where}"
    return given, "Nothing more is bound ahead of nodes there"


def _few(claims: Sequence[T]) -> Sequence[T]:
    return claims if len(claims) <= CLAIMS_TOLD else ()


def _claim_reference(claim: Claim) -> ObjectRef:
    return ObjectRef("v1", "PersistentVolumeClaim", claim.name, claim.namespace, claim.uid)
