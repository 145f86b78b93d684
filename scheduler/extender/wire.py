"""kube-scheduler's extender protocol, version 1: bytes to values and back.

Source: k8s.io/kube-scheduler/extender/v1/types.go. An extender with nodeCacheCapable is sent the uids of pods to evict,
others whole pods; uids are returned in both cases. The envelope has no JSON tags, so its names are those of Go's
fields, which Go reads in any letter case; objects inside have the API's names. Pods and nodes arrive whole, and only
what is needed is decoded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError, field
from msgspec.json import Decoder, Encoder

MAX_EXTENDER_PRIORITY: Final = 10
"""MaxExtenderPriority. kube-scheduler does not clamp what is above it."""

_DEFAULT_SCHEDULER: Final = "default-scheduler"


class MalformedRequest(ValueError):
    """A body that is not what kube-scheduler sends. The text states what was expected."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """A pod and the nodes in question. `items` are the nodes' own texts, in the order of `names`, if they were sent
    whole (an extender configured without nodeCacheCapable); None if only names were."""

    namespace: str
    scheduler_name: str
    claims: tuple[str, ...]
    names: Sequence[str]
    items: Sequence[Raw] | None = None


class _Metadata(Struct):
    name: str = ""
    namespace: str = ""


class _ClaimSource(Struct, rename="camel"):
    claim_name: str = ""


class _PodVolume(Struct, rename="camel"):
    name: str = ""
    persistent_volume_claim: _ClaimSource | None = None
    ephemeral: dict[str, object] | None = None


class _PodSpec(Struct, rename="camel"):
    scheduler_name: str = ""
    volumes: list[_PodVolume] | None = None


class _Pod(Struct):
    metadata: _Metadata
    spec: _PodSpec


class _Node(Struct):
    metadata: _Metadata


class _NodeList(Struct):
    items: list[Raw] | None = None


class _Arguments(Struct):
    pod: _Pod | UnsetType | None = field(name="Pod", default=UNSET)
    names: Raw | UnsetType = field(name="NodeNames", default=UNSET)
    nodes: _NodeList | UnsetType | None = field(name="Nodes", default=UNSET)


class _FilterResult(Struct):
    nodes: dict[str, object] | None = field(name="Nodes", default=None)
    names: Sequence[str] | None = field(name="NodeNames", default=None)
    failed: Mapping[str, str] = field(name="FailedNodes", default_factory=dict)
    unresolvable: Mapping[str, str] = field(name="FailedAndUnresolvableNodes", default_factory=dict)
    error: str = field(name="Error", default="")


class HostPriority(Struct, gc=False):
    """A node's score. kube-scheduler rejects a score that is not written as an integer."""

    host: str = field(name="Host")
    score: int = field(name="Score")


T = TypeVar("T")

_ARGUMENTS: Final = Decoder(_Arguments)
_ANY_CASE: Final = Decoder(dict[str, Raw])
_POD: Final = Decoder(_Pod | None)
_NAMES: Final = Decoder(list[str] | None)
_NODES: Final = Decoder(_NodeList | None)
_NODE: Final = Decoder(_Node)
_JSON: Final = Encoder()


class NameLists:
    """Decodes NodeNames, the same text only once in a row: kube-scheduler calls both verbs about the same nodes."""

    def __init__(self) -> None:
        self._text = b"null"
        self._names: list[str] | None = None

    def decode(self, raw: Raw) -> Sequence[str] | None:
        """Return the names, None for null. Raises msgspec.DecodeError."""
        text = bytes(raw)
        if text != self._text:
            self._names = _NAMES.decode(text)
            self._text = text
        return self._names


def read(body: bytes, lists: NameLists | None = None) -> Candidates:
    """Read ExtenderArgs, or raise MalformedRequest."""
    try:
        return _candidates(_arguments(body), lists or NameLists())
    except ValidationError as error:
        raise MalformedRequest(f"ExtenderArgs: {error}") from error
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRequest(f"expected ExtenderArgs as JSON: {error}") from error


def filter_result(candidates: Candidates, rejected: Mapping[str, str]) -> bytes:
    """Write ExtenderFilterResult: every candidate is either kept or rejected with a reason.

    All reasons are in the field that preemption ignores: evicting a pod makes no volume healthy or Available.
    """
    if candidates.items is None:
        kept = [name for name in candidates.names if name not in rejected] if rejected else candidates.names
        return _JSON.encode(_FilterResult(names=kept, unresolvable=rejected))
    items = [item for name, item in zip(candidates.names, candidates.items, strict=True) if name not in rejected]
    return _JSON.encode(_FilterResult(nodes={"metadata": {}, "items": items}, unresolvable=rejected))


def priorities(scores: Sequence[HostPriority]) -> bytes:
    """Write HostPriorityList."""
    return _JSON.encode(scores)


def _arguments(body: bytes) -> _Arguments:
    arguments = _ARGUMENTS.decode(body)
    if UNSET not in (arguments.pod, arguments.names, arguments.nodes):
        return arguments
    # Another letter case, or a client other than kube-scheduler, which sends all three.
    parts = {name.lower(): part for name, part in _ANY_CASE.decode(body).items()}
    names = parts.get("nodenames", UNSET)
    return _Arguments(pod=_part(parts, "pod", _POD), names=names, nodes=_part(parts, "nodes", _NODES))


def _part(parts: Mapping[str, Raw], name: str, decoder: Decoder[T]) -> T | None:
    return decoder.decode(parts[name]) if name in parts else None


def candidates_of(pod: Raw | None, names: Sequence[str], arguments: str) -> Candidates:
    """Return a pod, not decoded yet, and these nodes. Raises MalformedRequest, naming `arguments`, or DecodeError."""
    decoded = _POD.decode(pod) if pod is not None else None
    if decoded is None:
        raise MalformedRequest(f"{arguments}: expected Pod, found none")
    return _of_pod(decoded, names)


def _candidates(arguments: _Arguments, lists: NameLists) -> Candidates:
    if not isinstance(arguments.pod, _Pod):
        raise MalformedRequest("ExtenderArgs: expected Pod, found none")
    return _of_pod(arguments.pod, *_nodes(arguments, lists))


def _of_pod(pod: _Pod, names: Sequence[str], items: Sequence[Raw] | None = None) -> Candidates:
    metadata, spec = pod.metadata, pod.spec
    return Candidates(
        namespace=metadata.namespace or "default",
        scheduler_name=spec.scheduler_name or _DEFAULT_SCHEDULER,
        claims=tuple(dict.fromkeys(_claims(metadata.name, spec.volumes or ()))),
        names=names,
        items=items,
    )


def _nodes(arguments: _Arguments, lists: NameLists) -> tuple[Sequence[str], Sequence[Raw] | None]:
    names = lists.decode(arguments.names) if isinstance(arguments.names, Raw) else None
    if names is not None:
        return names, None
    if isinstance(arguments.nodes, _NodeList):
        items = arguments.nodes.items or []
        return [_NODE.decode(item).metadata.name for item in items], items
    raise MalformedRequest("ExtenderArgs: expected NodeNames or Nodes, found neither")


def _claims(pod_name: str, volumes: Sequence[_PodVolume]) -> list[str]:
    """Return the names of the claims; that of a generic ephemeral volume is the pod's name and the volume's."""
    return [
        volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim else f"{pod_name}-{volume.name}"
        for volume in volumes
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None
    ]


class MetaPod(Struct, gc=False):
    uid: str = field(name="UID", default="")


class MetaVictims(Struct, gc=False):
    """The victims on a node. Which budgets they violate is for kube-scheduler to decide and is returned unchanged."""

    pods: list[MetaPod] | None = field(name="Pods", default=None)
    violations: int = field(name="NumPDBViolations", default=0)


@dataclass(frozen=True, slots=True)
class ProposedPreemption:
    """A pod, the nodes on which it would fit if pods were evicted, and those pods."""

    candidates: Candidates
    victims: Mapping[str, MetaVictims]


class _VictimMetadata(Struct):
    uid: str = ""


class _VictimPod(Struct):
    metadata: _VictimMetadata


class _Victims(Struct):
    pods: list[_VictimPod] | None = field(name="Pods", default=None)
    violations: int = field(name="NumPDBViolations", default=0)


class _Result(Struct):
    victims: Mapping[str, MetaVictims] = field(name="NodeNameToMetaVictims")


_META: Final = Decoder(dict[str, MetaVictims | None] | None)
_WHOLE: Final = Decoder(dict[str, _Victims | None] | None)


def read_preemption(body: bytes) -> ProposedPreemption:
    """Read ExtenderPreemptionArgs, whose names Go reads in any letter case, or raise MalformedRequest."""
    try:
        parts = {name.lower(): part for name, part in _ANY_CASE.decode(body).items()}
        victims = _victims(parts)
        return ProposedPreemption(candidates_of(parts.get("pod"), tuple(victims), "ExtenderPreemptionArgs"), victims)
    except ValidationError as error:
        raise MalformedRequest(f"ExtenderPreemptionArgs: {error}") from error
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRequest(f"expected ExtenderPreemptionArgs as JSON: {error}") from error


def preemption_result(preemption: ProposedPreemption, rejected: Mapping[str, str]) -> bytes:
    """Write ExtenderPreemptionResult: the candidates that are left, with the victims that were proposed there."""
    left = {name: victims for name, victims in preemption.victims.items() if name not in rejected}
    return _JSON.encode(_Result(left))


def _victims(parts: Mapping[str, Raw]) -> Mapping[str, MetaVictims]:
    named = _META.decode(parts["nodenametometavictims"]) if "nodenametometavictims" in parts else None
    if named is not None:
        return {node: victims or MetaVictims() for node, victims in named.items()}
    whole = _WHOLE.decode(parts["nodenametovictims"]) if "nodenametovictims" in parts else None
    if whole is None:
        raise MalformedRequest(
            "ExtenderPreemptionArgs: expected NodeNameToMetaVictims or NodeNameToVictims, found neither"
        )
    return {node: _without_pods(victims or _Victims()) for node, victims in whole.items()}


def _without_pods(victims: _Victims) -> MetaVictims:
    return MetaVictims([MetaPod(pod.metadata.uid) for pod in victims.pods or ()], victims.violations)
