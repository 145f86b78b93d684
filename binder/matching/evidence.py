"""The evidence of a rejection in words: what the rule wanted, and what the object offered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

from binder.matching.matching import class_of, selector_problem
from binder.matching.rejection import Reason, Rejection
from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Pairs, Requirement
from kube.objects.memory import remembered
from kube.objects.model import Claim, ClaimReference, Node, Volume, value_of
from kube.rules.quantity import format_quantity

_SYMBOLS: Final[Mapping[str, str]] = {"In": "in", "NotIn": "not in", "Gt": ">", "Lt": "<"}


_MAX_LISTED: Final = 16
"""Of terms, requirements, values and labels in a text: users write thousands, and texts are made for many volumes and
nodes.
"""

_TEXT_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class RejectionEvidence:
    """The context of a rejection: the claim, the volume chosen for it, the node, what the pod's other claims took."""

    claim: Claim
    chosen: Volume | None = None
    node: Node | None = None
    taken: Mapping[str, str] | None = None

    def rejection(self, volume: Volume, reason: Reason) -> Rejection:
        """Return the rejection of a volume with its evidence."""
        wanted, offered = _EVIDENCE.get(reason, _unexplained)(self, volume)
        return Rejection(reason, volume.name, wanted, offered)


Words = tuple[str, str]


def _claimed(evidence: RejectionEvidence, volume: Volume) -> Words:
    mine = ClaimReference(evidence.claim.namespace, evidence.claim.name, evidence.claim.uid)
    reference = volume.claim or ClaimReference()
    offered = f"claimRef {reference.namespace or '(no namespace)'}/{reference.name or '(no name)'}"
    if (reference.namespace, reference.name) == (mine.namespace, mine.name):
        offered += f" with uid {reference.uid}"
        return f"no claimRef, or one with uid {mine.uid or '(none)'}", offered
    return f"no claimRef, or {evidence.claim.key}", offered


def _size(evidence: RejectionEvidence, volume: Volume) -> Words:
    return f"at least {quantity_text(evidence.claim.request)}", quantity_text(volume.capacity)


def _storage_class(evidence: RejectionEvidence, volume: Volume) -> Words:
    return class_of(evidence.claim) or "no class", class_of(volume) or "no class"


def _attributes_class(evidence: RejectionEvidence, volume: Volume) -> Words:
    return evidence.claim.attributes_class or "none", volume.attributes_class or "none"


def _volume_mode(evidence: RejectionEvidence, volume: Volume) -> Words:
    return evidence.claim.volume_mode, volume.volume_mode


def _access_modes(evidence: RejectionEvidence, volume: Volume) -> Words:
    return modes_text(evidence.claim.access_modes), modes_text(volume.access_modes)


def _deleting(_: RejectionEvidence, __: Volume) -> Words:
    return "a volume not being deleted", "being deleted"


def _phase(_: RejectionEvidence, volume: Volume) -> Words:
    return "phase Available", f"phase {volume.phase}" if volume.phase else "no phase"


def _selector(evidence: RejectionEvidence, volume: Volume) -> Words:
    problem = selector_problem(evidence.claim)
    if problem is not None:
        return "a valid selector", problem
    selector = evidence.claim.selector or LabelSelector()
    keys = [key for key, _ in selector.match_labels] + [requirement.key for requirement in selector.match_expressions]
    return selector_text(selector), _labels_text(volume.labels, keys)


def _affinity(evidence: RejectionEvidence, volume: Volume) -> Words:
    affinity = volume.node_affinity or NodeSelector()
    keys = [requirement.key for term in affinity.terms for requirement in term.match_expressions]
    node = evidence.node
    here = "the node" if node is None else f"node {node.name} ({_labels_text(node.labels, keys)})"
    return f"accessible from {here}", f"accessible where {affinity_text(affinity)}"


def _delayed(evidence: RejectionEvidence, _: Volume) -> Words:
    return f"a volume with claimRef {evidence.claim.key}, until a pod uses the claim", "a volume without claimRef"


def _larger(evidence: RejectionEvidence, volume: Volume) -> Words:
    chosen = evidence.chosen or volume
    return f"{quantity_text(chosen.capacity)} ({chosen.name})", quantity_text(volume.capacity)


def _more_modes(evidence: RejectionEvidence, volume: Volume) -> Words:
    chosen = evidence.chosen or volume
    return f"{modes_text(chosen.access_modes)} ({chosen.name})", modes_text(volume.access_modes)


def _tied(evidence: RejectionEvidence, volume: Volume) -> Words:
    first = evidence.chosen.name if evidence.chosen else "another"
    return f"{first}, first by name among equals", volume.name


def _prebound(evidence: RejectionEvidence, volume: Volume) -> Words:
    offered = "no claimRef" if volume.claim is None else "also has a claimRef, but is not the first by name"
    return f"the volume whose claimRef names {evidence.claim.key}", offered


def _requested(evidence: RejectionEvidence, volume: Volume) -> Words:
    return f"{evidence.claim.volume_name} (spec.volumeName)", volume.name


def _taken(evidence: RejectionEvidence, volume: Volume) -> Words:
    holder = (evidence.taken or {}).get(volume.name, "another claim")
    return "a volume not taken by another claim of the pod", f"taken by {holder}"


def _binding_mode_missing(evidence: RejectionEvidence, _: Volume) -> Words:
    return f"volumeBindingMode in StorageClass {class_of(evidence.claim)}", "not set"


def _provisioning(evidence: RejectionEvidence, _: Volume) -> Words:
    node = value_of(evidence.claim.annotations, "volume.kubernetes.io/selected-node")
    return f"a new volume, already being provisioned for node {node}", "an existing volume"


def _unexplained(_: RejectionEvidence, __: Volume) -> Words:
    return "", ""


_EVIDENCE: Final[Mapping[Reason, Callable[[RejectionEvidence, Volume], Words]]] = {
    Reason.CLAIMED_BY_OTHER: _claimed,
    Reason.TOO_SMALL: _size,
    Reason.CLASS_MISMATCH: _storage_class,
    Reason.ATTRIBUTES_CLASS_MISMATCH: _attributes_class,
    Reason.VOLUME_MODE_MISMATCH: _volume_mode,
    Reason.ACCESS_MODES_MISMATCH: _access_modes,
    Reason.VOLUME_DELETING: _deleting,
    Reason.NOT_AVAILABLE: _phase,
    Reason.SELECTOR_MISMATCH: _selector,
    Reason.SELECTOR_TOO_LARGE: _selector,
    Reason.NODE_AFFINITY_MISMATCH: _affinity,
    Reason.DELAYED_BINDING: _delayed,
    Reason.LARGER_THAN_CHOSEN: _larger,
    Reason.MORE_ACCESS_MODES_THAN_CHOSEN: _more_modes,
    Reason.TIED_WITH_CHOSEN: _tied,
    Reason.OTHER_VOLUME_PREBOUND: _prebound,
    Reason.OTHER_VOLUME_REQUESTED: _requested,
    Reason.TAKEN_BY_OTHER_CLAIM_OF_POD: _taken,
    Reason.BINDING_MODE_MISSING: _binding_mode_missing,
    Reason.PROVISIONING_CHOSEN: _provisioning,
}


@lru_cache(maxsize=4096)
def quantity_text(nano: int) -> str:
    return format_quantity(nano)


def reasons_text(counts: Mapping[Reason, int]) -> str:
    """Return how often each reason occurred, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {reason}" for reason, count in ordered)


@remembered(64 * 2**10)
def modes_text(modes: tuple[str, ...]) -> str:
    return ", ".join(modes) or "no access modes"


@remembered(_TEXT_BYTES)
def selector_text(selector: LabelSelector) -> str:
    """Return a label selector in `kubectl`'s notation."""
    if selector.dropped_bytes:
        return f"a selector of {selector.dropped_bytes:,} bytes"
    equal = [f"{key}={value}" for key, value in islice(selector.match_labels, _MAX_LISTED)]
    others = list(map(_requirement_text, islice(selector.match_expressions, _MAX_LISTED)))
    count = len(selector.match_labels) + len(selector.match_expressions)
    return ", ".join(_cut([*equal, *others], count)) or "any labels"


@remembered(_TEXT_BYTES)
def affinity_text(affinity: NodeSelector) -> str:
    """Return a node selector in one line: terms joined by `or`, their requirements by `and`."""
    terms = list(map(_term_text, islice(affinity.terms, _MAX_LISTED)))
    return " or ".join(_cut(terms, len(affinity.terms))) or "no terms (nowhere)"


def _term_text(term: NodeSelectorTerm) -> str:
    requirements = (*term.match_expressions, *term.match_fields)
    texts = list(map(_requirement_text, islice(requirements, _MAX_LISTED)))
    return " and ".join(_cut(texts, len(requirements))) or "an empty term (nowhere)"


def _requirement_text(requirement: Requirement) -> str:
    key, operator = requirement.key, requirement.operator
    if operator == "Exists":
        return f"{key} exists"
    if operator == "DoesNotExist":
        return f"{key} is absent"
    values = ", ".join(_cut(requirement.values, len(requirement.values)))
    if operator in ("Gt", "Lt"):
        return f"{key} {_SYMBOLS[operator]} {values}"
    return f"{key} {_SYMBOLS.get(operator, operator)} ({values})"


def _cut(texts: Sequence[str], count: int) -> Sequence[str]:
    """Return the first texts, and how many of all were left out."""
    return texts if count <= _MAX_LISTED else [*texts[:_MAX_LISTED], f"{count - _MAX_LISTED:,} more"]


def _labels_text(labels: Pairs, keys: list[str]) -> str:
    """Return the labels that the rule read, absent ones included."""
    values = {key: value_of(labels, key) for key in keys}
    texts = [f"no {key}" if value is None else f"{key}={value}" for key, value in values.items()]
    return ", ".join(_cut(texts, len(texts))) or "no labels apply"
