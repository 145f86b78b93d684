"""What the user asks about: `pod/NAME`, `pvc/NAME`, `pv/NAME`, or a bare NAME of either."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kube.configuration.nearest import did_you_mean

_KINDS: Final = {
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("pvc", "persistentvolumeclaim", "persistentvolumeclaims", "claim"), "PersistentVolumeClaim"),
    **dict.fromkeys(("pv", "persistentvolume", "persistentvolumes", "volume"), "PersistentVolume"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """One object that was asked about. `kind` is empty for a bare name: a claim or a pod, whichever there is."""

    kind: str
    name: str


def parse_target(text: str) -> Target:
    """Read one argument. Raises ValueError with a sentence for the user."""
    kind, slash, name = text.partition("/")
    if not slash:
        return Target("", text)
    known = _KINDS.get(kind.lower().removesuffix("."))
    if known is None or not name or "/" in name:
        meant = did_you_mean(kind, ("pod", "pvc", "pv")).rstrip(".")
        raise ValueError(f'expected pod/NAME, pvc/NAME, pv/NAME or NAME, found "{text}"{meant}')
    return Target(known, name)


def parse_targets(texts: Sequence[str]) -> tuple[Target, ...]:
    return tuple(dict.fromkeys(map(parse_target, texts)))
