"""The words of kube-scheduler's extender protocol for the verb `preempt`: candidate nodes with the pods to evict there.

Source: ExtenderPreemptionArgs and ExtenderPreemptionResult of k8s.io/kube-scheduler/extender/v1/types.go. An extender
with nodeCacheCapable is sent the victims' uids, others whole pods; back go uids in both cases.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import DecodeError, Raw, Struct, ValidationError, field
from msgspec.json import Decoder, Encoder

from scheduler.extender.extender_wire import BadRequest, Candidates, candidates_of


class MetaPod(Struct, gc=False):
    """A victim."""

    uid: str = field(name="UID", default="")


class MetaVictims(Struct, gc=False):
    """The victims on one node. What they violate is kube-scheduler's affair and goes back as it came."""

    pods: list[MetaPod] | None = field(name="Pods", default=None)
    violations: int = field(name="NumPDBViolations", default=0)


@dataclass(frozen=True, slots=True)
class Preemption:
    """A pod, the nodes on which it would fit if pods were evicted, and those pods."""

    candidates: Candidates
    victims: Mapping[str, MetaVictims]


class _Metadata(Struct):
    uid: str = ""


class _VictimPod(Struct):
    metadata: _Metadata


class _Victims(Struct):
    pods: list[_VictimPod] | None = field(name="Pods", default=None)
    violations: int = field(name="NumPDBViolations", default=0)


class _Result(Struct):
    victims: Mapping[str, MetaVictims] = field(name="NodeNameToMetaVictims")


_ARGUMENTS: Final = Decoder(dict[str, Raw])
_META: Final = Decoder(dict[str, MetaVictims | None] | None)
_WHOLE: Final = Decoder(dict[str, _Victims | None] | None)
_JSON: Final = Encoder()


def read_preemption(body: bytes) -> Preemption:
    """Read ExtenderPreemptionArgs, whose names Go reads in any letter case, or raise BadRequest."""
    try:
        parts = {name.lower(): part for name, part in _ARGUMENTS.decode(body).items()}
        victims = _victims(parts)
        return Preemption(candidates_of(parts.get("pod"), tuple(victims), "ExtenderPreemptionArgs"), victims)
    except ValidationError as error:
        raise BadRequest(f"ExtenderPreemptionArgs: {error}") from error
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"expected ExtenderPreemptionArgs as JSON: {error}") from error


def preemption_result(preemption: Preemption, refused: Mapping[str, str]) -> bytes:
    """Write ExtenderPreemptionResult: the candidates that are left, with the victims that were proposed there."""
    left = {name: victims for name, victims in preemption.victims.items() if name not in refused}
    return _JSON.encode(_Result(left))


def _victims(parts: Mapping[str, Raw]) -> Mapping[str, MetaVictims]:
    named = _META.decode(parts["nodenametometavictims"]) if "nodenametometavictims" in parts else None
    if named is not None:
        return {node: victims or MetaVictims() for node, victims in named.items()}
    whole = _WHOLE.decode(parts["nodenametovictims"]) if "nodenametovictims" in parts else None
    if whole is None:
        raise BadRequest("ExtenderPreemptionArgs: expected NodeNameToMetaVictims or NodeNameToVictims, found neither")
    return {node: _without_pods(victims or _Victims()) for node, victims in whole.items()}


def _without_pods(victims: _Victims) -> MetaVictims:
    return MetaVictims([MetaPod(pod.metadata.uid) for pod in victims.pods or ()], victims.violations)
