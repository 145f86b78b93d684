"""Pods that fit no node, filed by what they wait for, so that a change is asked once about all pods that are alike."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from kube.model import Claim, Pod
from scheduler.change import Change, Wanted
from scheduler.hints import Hint, hint_of


@dataclass(slots=True)
class _Alike:
    """Pods of which a plugin that refused them sees no difference. The first stands for all."""

    pod: Pod
    wanted: Wanted | None
    keys: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Filed:
    """Where a pod is filed."""

    pod: Pod
    places: tuple[tuple[str, Hashable], ...]


class RefusedPods:
    """Finds the refused pods that a change may help, at a cost that grows with how many kinds of pods there are."""

    def __init__(self) -> None:
        self._filed: dict[str, _Filed] = {}
        self._groups: dict[str, dict[Hashable, _Alike]] = {}
        self._by_claim: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._filed)

    def __iter__(self) -> Iterator[str]:
        return iter(self._filed)

    def add(self, pod: Pod, refused_by: Iterable[str], wanted: Wanted | None) -> None:
        """File a pod under the plugins that refused it; under none it waits for any change."""
        self.discard(pod.key)
        places = tuple((name, hint_of(name).shape(pod, wanted)) for name in frozenset(refused_by) or {""})
        for name, shape in places:
            groups = self._groups.setdefault(name, {})
            alike = groups.get(shape)
            if alike is None:
                alike = groups[shape] = _Alike(pod, wanted)
            alike.keys[pod.key] = None
        for claim_key in pod.claim_keys:
            self._by_claim.setdefault(claim_key, {})[pod.key] = None
        self._filed[pod.key] = _Filed(pod, places)

    def discard(self, pod_key: str) -> None:
        """Take a pod out; nothing happens when it is not there."""
        filed = self._filed.pop(pod_key, None)
        if filed is None:
            return
        for name, shape in filed.places:
            alike = self._groups[name][shape]
            del alike.keys[pod_key]
            if not alike.keys:
                del self._groups[name][shape]
        for claim_key in filed.pod.claim_keys:
            del self._by_claim[claim_key][pod_key]
            if not self._by_claim[claim_key]:
                del self._by_claim[claim_key]

    def helped_by(self, change: Change) -> list[str]:
        """Return the keys of the pods that fit a node now, as far as can be told without looking."""
        found: dict[str, None] = {}
        subject = change.old if change.new is None else change.new
        if isinstance(subject, Claim):
            found.update(self._by_claim.get(subject.key, {}))
        for name, groups in self._groups.items():
            hint = hint_of(name)
            if hint.concerns(change.kind):
                for alike in _helped(hint, groups.values(), change):
                    found.update(alike.keys)
        return list(found)


def _helped(hint: Hint, groups: Iterable[_Alike], change: Change) -> Iterator[_Alike]:
    return (alike for alike in groups if hint.helps(alike.pod, change, alike.wanted))
