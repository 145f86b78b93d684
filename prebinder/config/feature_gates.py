"""Feature gates: parts that can be switched off for a whole cluster, in the form that Kubernetes has for them.

`STAGES` is the only table of them, and `Settings` the only place from which they are read. Each part needs an opt-in of
its own beside its gate, by a flag, a class or a command; therefore even parts in alpha are on by default. Unlike those
opt-ins, which any author of a StorageClass may have, a gate is the operator's alone.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from kube.configuration.nearest import did_you_mean

_STATES: Final = {"true": True, "false": False}


class Stage(StrEnum):
    """As in Kubernetes' own table (k8s.io/component-base/featuregate), where general availability is empty."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = ""


def gate_name(field: str) -> str:
    """Return the name of the gate of a field: `new_nodes` is `NewNodes`."""
    return "".join(word.capitalize() for word in field.split("_"))


GATE_KEYS: Final[Mapping[str, object]] = {
    "extra": "forbid",
    "alias_generator": gate_name,
    "use_attribute_docstrings": True,
}
"""The `__pydantic_config__`: in a file, gates by their names, and no others."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Whether each part may work at all."""

    __pydantic_config__ = GATE_KEYS

    scheduler: bool = True
    """The standalone scheduler, `pvc-prebinder scheduler`."""
    provision: bool = True
    """Mode provision. Off, classes in this mode count as classes without one."""
    holds: bool = True
    """Holds for replicas to come, also needs `holds.enabled`."""
    new_nodes: bool = True
    """Volumes committed ahead of new nodes. Off, the annotation `new-nodes` of classes counts as absent."""

    def stated(self) -> Mapping[str, tuple[Stage, bool]]:
        """Return for each gate, by its name, its stage and whether it is on."""
        return {gate_name(field): (stage, getattr(self, field)) for field, stage in STAGES.items()}

    def off(self) -> tuple[str, ...]:
        """Return the names of the gates that are off."""
        return tuple(name for name, (_, on) in self.stated().items() if not on)


ALL_ON: Final = FeatureGates()

STAGES: Final[Mapping[str, Stage]] = {field.name: Stage.ALPHA for field in fields(FeatureGates)}


def parse_gates(text: str) -> Mapping[str, bool]:
    """Return which fields `Holds=true,NewNodes=false` sets; ValueError with a sentence for the user."""
    by_name = {gate_name(field): field for field in STAGES}
    chosen: dict[str, bool] = {}
    for pair in filter(None, text.split(",")):
        name, _, state = pair.partition("=")
        if name.strip() not in by_name:
            raise ValueError(f'unknown feature gate "{name.strip()}"{_meant(name, by_name)}')
        if state.strip().lower() not in _STATES:
            raise ValueError(f'{name.strip()} must be true or false, is "{state.strip()}"')
        chosen[by_name[name.strip()]] = _STATES[state.strip().lower()]
    return chosen


def _meant(name: str, known: Collection[str]) -> str:
    meant = did_you_mean(name.strip(), known)
    return meant if meant != "." else f"; expected {', '.join(known)}"
