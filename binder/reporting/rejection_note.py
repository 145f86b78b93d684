"""The note of an Event about a pod for which nothing is reserved: its form, and reading it back. No I/O.

In one line, because `kubectl get events` prints a note as it is:
`No volumes reserved: CODE. NEXT STEP. Rejected: REJECTION; REJECTION; and N more. See URL`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from binder.matching.rejection import Reason
from binder.model.decision import Reject

NOTE_BYTES: Final = 1024
"""The API's limit for an Event's note."""

_FORM: Final = re.compile(
    r"(?P<state>No volumes reserved|Bind not finished): (?P<code>\w+)\.(?: (?!Rejected: )(?P<step>.*?))??"
    r"(?: Rejected: (?P<rejected>.*?))?(?:(?:\.|(?<=\.)) See https?://\S+)?"
)
_BETWEEN: Final = re.compile(r"(?<=\)); ")
"""A rejection ends with a parenthesis; what it quotes may contain a semicolon."""

_NEXT_STEP: Final = {
    Reason.UNHEALTHY: "Repair the volume or add a healthy one.",
    Reason.HEALTH_UNKNOWN: "Check that the CSI driver responds, or run with --unknown-health=allow.",
    Reason.QUARANTINED: "Repair the volume, or release it with `pvc-prebinder quarantine release`.",
    Reason.TOPOLOGY_CONTRADICTED: "Correct the volume's nodeAffinity, or move the volume accordingly.",
    Reason.NO_NODE_FITS: "Add or free up a node that fits the pod and from which the volumes are accessible.",
    Reason.INSUFFICIENT_STORAGE: "Free or add storage on a node that fits the pod; it is tried again when its driver"
    " reports more.",
    Reason.PARTLY_PROVISIONED: "Some of its volumes exist or are being made, and there is no room for the others beside"
    " them. Free storage there. If the volumes that exist hold no data, delete the pod and its claims instead, and"
    " create them again.",
    Reason.PROVISIONING_OVERDUE: "See the Events of the claims and the log of the driver's provisioner; the pod goes on"
    " by itself when the volumes exist.",
    Reason.SELECTED_NODE_STALE: "The node that was selected for the volumes is gone. If the driver has made none for"
    " the claim, remove the annotation volume.kubernetes.io/selected-node from it (`pvc-prebinder why` has the"
    " command).",
    Reason.DRIVER_NOT_ON_NODE: "The driver has left the node that was selected for the volumes. Let it run there again;"
    " or, if it has made none for the claim, remove the annotation volume.kubernetes.io/selected-node from it"
    " (`pvc-prebinder why` has the command).",
    Reason.NO_JOINT_ASSIGNMENT: "Add a volume so that one zone has a volume for each claim of the pod.",
    Reason.NO_VOLUME_FITS: "Add a volume that fits, or change the claim.",
    Reason.REQUESTED_VOLUME_MISMATCH: "Name another volume, or none, in a new claim, or clear the volume's claimRef.",
    Reason.EXPLANATION_PENDING: "Many pods were rejected at once; the reason follows when this pod is retried.",
    Reason.WAITING_FOR_NEW_NODE: "It is its turn when those pods have their nodes.",
    Reason.ROOM_WITHOUT_DISK: "An autoscaler judges only whether a node has room for the pod, not whether it has the"
    " disk. Free a volume, or add a node whose disk is offered as a volume.",
    Reason.TOO_MANY_CLAIMS: "Use fewer claims, or let kube-scheduler place the pod without a reservation"
    " (scheduling gate removed, classes in mode off).",
    Reason.SELECTOR_TOO_LARGE: "Give the volumes a label in common, and select that one in a new claim.",
    Reason.CLAIM_LOST: "The PV is gone. Do not delete the claim: if only the PV object was deleted, create it again"
    " with the same name, source and claimRef (namespace, name and uid of the claim), and the claim is Bound again.",
    Reason.CLAIM_NOT_OWNED: "Rename the pod or its volume, or delete the claim of that name.",
    Reason.CLAIM_DELETING: "Wait for the claim to be deleted, then recreate it.",
}


@dataclass(frozen=True, slots=True)
class RejectionNote:
    """What a note says: `begun` if only the bind was not finished, the code, the next step, and the evidence."""

    begun: bool
    code: str
    step: str
    rejections: Sequence[str]


def rejection_note(decision: Reject, documentation: str = "") -> str:
    """Return the reason, the next step and as much of the evidence as an Event holds.

    `documentation` is where the site of the documentation is, for a link to the reason's page; empty for none.
    """
    link = f" See {documentation.rstrip('/')}/causes/{decision.reason}/" if documentation else ""
    limit = NOTE_BYTES - len(f".{link}".encode()) if link else NOTE_BYTES
    state = "Bind not finished" if decision.begun else "No volumes reserved"
    note = f"{state}: {decision.reason}. {next_step(decision)}".rstrip()
    for position, rejection in enumerate(decision.rejections):
        left = len(decision.rejections) - position
        longer = f"{note}; {rejection}" if position else f"{note} Rejected: {rejection}"
        more = f"; and {left - 1} more" if left > 1 else ""
        if len((longer + more).encode()) > limit and position == 0:
            # A note without any evidence would not even name a volume.
            return _linked(shortened(longer, limit - len(more)) + more, link)
        if len((longer + more).encode()) > limit:
            return _linked(shortened(f"{note}; and {left} more", limit), link)
        note = longer
    return _linked(shortened(note, limit), link)


def parse_rejection_note(note: str) -> RejectionNote | None:
    """Return what a note says, None if it is not of this form. Others can write Events too."""
    match = _FORM.fullmatch(note) if len(note) <= NOTE_BYTES else None
    if match is None:
        return None
    step, rejected = match["step"] or "", match["rejected"]
    if step and not step.endswith("."):
        step += "."  # The link shares the full stop.
    return RejectionNote(
        match["state"].startswith("Bind"), match["code"], step, _BETWEEN.split(rejected) if rejected else ()
    )


def next_step(decision: Reject) -> str:
    """Return what a user can do, in sentences; empty if that depends on the evidence alone."""
    return _NEXT_STEP.get(decision.reason) or next(_steps(decision), "")


def shortened(text: str, limit: int) -> str:
    """Truncate a text to so many bytes of UTF-8, never within a character."""
    return text if len(text.encode()) <= limit else text.encode()[: limit - 3].decode(errors="ignore") + "..."


def _linked(note: str, link: str) -> str:
    return note if not link else f"{note.removesuffix('.')}.{link}"


def _steps(decision: Reject) -> Iterator[str]:
    return (_NEXT_STEP[rejection.reason] for rejection in decision.rejections if rejection.reason in _NEXT_STEP)
