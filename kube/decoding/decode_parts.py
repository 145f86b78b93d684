"""What objects of all kinds have in common: metadata, the annotations that are kept, quantities, selectors."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Final, TypeVar

from msgspec import UNSET, DecodeError, Struct
from msgspec.json import Decoder

from kube.decoding import wire
from kube.decoding.interning import DecodedParts, pairs, shared, text, texts
from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Pairs, Requirement
from kube.objects.model import (
    BETA_CLASS_ANNOTATION,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    DEFAULT_CLASS_ANNOTATIONS,
    PROVISIONED_BY,
    PROVISIONER_ANNOTATIONS,
    SELECTED_NODE,
)
from kube.rules.quantity import QuantityError, parse_quantity
from kube.rules.selectors import MAX_SELECTOR_BYTES

OWN_PREFIX: Final = "scheduler.cloud.example/"
"""Default prefix of our own annotations."""

KEPT_ANNOTATIONS: Final = frozenset(
    {
        BIND_COMPLETED,
        BOUND_BY_CONTROLLER,
        PROVISIONED_BY,
        SELECTED_NODE,
        BETA_CLASS_ANNOTATION,
        *DEFAULT_CLASS_ANNOTATIONS,
        *PROVISIONER_ANNOTATIONS,
    }
)
"""Annotations that records keep besides our own: those by which Kubernetes binds, provisions and defaults."""

MAX_ANNOTATION_CHARACTERS: Final = 4096
"""Characters. A longer value of ours counts as absent: none that we write comes near it. Of Kubernetes' own annotations
the beginning is kept, because being present already has a meaning: a beta class annotation takes precedence over the
field, and no class has so long a name.
"""

MAX_OWN_ANNOTATION_CHARACTERS: Final = 16 * 2**10
"""Characters of all annotations with our prefix, which any user may write; the longest are dropped first."""

MAX_LABELS: Final = 1000
"""Of an object. Its author, who may be a namespace user, could write 60,000."""

P = TypeVar("P", bound=wire.Wire)
V = TypeVar("V")

_WHERE: Final = re.compile(r"(?P<problem>.*) - at `(?P<path>[^`]*)`", re.DOTALL)
"""msgspec has no attribute for the path of a ValidationError: only its message has it. The bounds in pyproject.toml
admit one minor version, and a test compares the messages of the installed one.
"""


class FieldError(ValueError):
    """A field with an invalid value. `path` is a JSON path such as `$.spec.capacity`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def field_error(error: Exception, root: str = "$") -> FieldError:
    """Split a decoder's message into path and problem. `root` is the path of the part that was decoded."""
    match = _WHERE.fullmatch(str(error))
    return FieldError(root + match["path"][1:], match["problem"]) if match else FieldError(root, str(error))


class Identity(Struct, frozen=True, gc=False):
    """The identity of an object. Namespaced objects without a namespace are in `default`, as with kubectl."""

    name: str
    namespace: str
    uid: str
    resource_version: int


def identity(metadata: wire.Metadata | None) -> Identity:
    """Read name, namespace, uid and version. An object without a name is malformed."""
    if metadata is None or not metadata.name:
        raise FieldError("$.metadata.name", "is missing")
    version = metadata.resource_version or "0"
    if not (version.isascii() and version.isdigit() and len(version) < 40):
        raise FieldError("$.metadata.resourceVersion", f"expected a whole number, found {version[:40]!r}")
    return Identity(text(metadata.name), text(metadata.namespace) or "default", metadata.uid or "", int(version))


def labels(metadata: wire.Metadata) -> Pairs:
    """Return an object's labels: of too many the first, as the API server sorts them."""
    return decoded_part(_LABELS, metadata.labels, "$.metadata.labels") or ()


def mapping(part: wire.RawPart, path: str) -> Pairs:
    """Return a map of texts, sorted by key."""
    return decoded_part(_PAIRS, part, path) or ()


def kept_annotations(metadata: wire.Metadata, own_prefix: str) -> Pairs:
    """Return the annotations that some rule may read: ours and those of KEPT_ANNOTATIONS."""
    return decoded_part(_annotations(own_prefix), metadata.annotations, "$.metadata.annotations") or ()


@lru_cache(maxsize=8)
def _annotations(own_prefix: str) -> DecodedParts[Pairs]:
    def keep(part: bytes) -> Pairs:
        annotations = _MAPPING.decode(part)
        own = {key: value for key, value in annotations.items() if key.startswith(own_prefix) and _is_short(value)}
        others = {
            key: (annotations[key] or "")[:MAX_ANNOTATION_CHARACTERS] for key in KEPT_ANNOTATIONS & annotations.keys()
        }
        return pairs({**_shortest(own), **others})

    return DecodedParts(keep)


def _shortest(annotations: dict[str, str | None]) -> dict[str, str | None]:
    """Return as many annotations, the shortest first, as there is room for."""
    room, kept = MAX_OWN_ANNOTATION_CHARACTERS, {}
    for key, value in sorted(annotations.items(), key=lambda pair: len(pair[0]) + len(pair[1] or "")):
        room -= len(key) + len(value or "")
        if room < 0:
            break
        kept[key] = value
    return kept


def _is_short(value: str | None) -> bool:
    return len(value or "") <= MAX_ANNOTATION_CHARACTERS


def present(part: P | None, path: str) -> P:
    """Return a part that an object must have."""
    if part is None:
        raise FieldError(path, "is missing")
    return part


def amount(quantity: wire.Amount, path: str) -> int:
    """Return a quantity in nano-units; null is 0."""
    if quantity is None:
        return 0
    try:
        return parse_quantity(quantity)
    except QuantityError as error:
        raise FieldError(path, str(error)) from error


def amounts(quantities: wire.Amounts, path: str) -> dict[str, int]:
    """Return quantities by resource, in nano-units."""
    return {name: amount(quantity, f"{path}.{name}") for name, quantity in (quantities or {}).items()}


def label_selector(raw: wire.RawPart, path: str) -> LabelSelector | None:
    """Return a selector; of one that is too large its size."""
    if raw is not UNSET and len(bytes(raw)) > MAX_SELECTOR_BYTES:
        return LabelSelector(dropped_bytes=len(bytes(raw)))
    return decoded_part(_SELECTORS, raw, path)


def volume_node_affinity(raw: wire.RawPart, path: str) -> NodeSelector | None:
    """Return `spec.nodeAffinity.required` of a volume."""
    return decoded_part(_VOLUME_AFFINITIES, raw, path)


def decoded_part(parts: DecodedParts[V], raw: wire.RawPart, path: str) -> V | None:
    try:
        return parts.of(raw)
    except DecodeError as error:
        raise field_error(error, path) from error


def selector(label_selector: wire.LabelSelector) -> LabelSelector:
    return shared(LabelSelector(pairs(label_selector.match_labels), requirements(label_selector.match_expressions)))


def node_selector(selector: wire.NodeSelector | None) -> NodeSelector | None:
    if selector is None:
        return None
    return shared(NodeSelector(tuple(map(node_selector_term, selector.node_selector_terms or ()))))


def node_selector_term(term: wire.NodeSelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(requirements(term.match_expressions), requirements(term.match_fields))


def requirements(raw: Iterable[wire.Requirement] | None) -> tuple[Requirement, ...]:
    """Return requirements on labels."""
    return tuple(
        shared(Requirement(text(requirement.key), text(requirement.operator), texts(requirement.values)))
        for requirement in raw or ()
    )


_MAPPING: Final = Decoder(dict[str, str | None])
_LABEL_SELECTOR: Final = Decoder(wire.LabelSelector)
_VOLUME_NODE_AFFINITY: Final = Decoder(wire.VolumeNodeAffinity)

_LABELS: Final = DecodedParts(lambda part: pairs(dict(islice(_MAPPING.decode(part).items(), MAX_LABELS))))
_PAIRS: Final = DecodedParts(lambda part: pairs(_MAPPING.decode(part)))
_SELECTORS: Final = DecodedParts(lambda part: selector(_LABEL_SELECTOR.decode(part)))
_VOLUME_AFFINITIES: Final = DecodedParts(lambda part: node_selector(_VOLUME_NODE_AFFINITY.decode(part).required))
