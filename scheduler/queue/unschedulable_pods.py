"""Unschedulable pods, indexed by what they wait for, so that a change is evaluated once for all equal pods."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import msgspec

from kube.objects.model import Claim, Pod, Volume
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.framework.queueing_hint import QueueingHint
from scheduler.queue.hints import Hints, by_claims, effective, may_help

_Keys = dict[str, None]


@dataclass(slots=True)
class _Alike:
    """Pods that are equal for a plugin that rejected them, and one without claims as their representative."""

    pod: Pod
    wanted: Wanted | None
    keys: _Keys = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Filed:
    """A pod, and where it is indexed."""

    pod: Pod
    hints: Hints
    wanted: Wanted | None
    places: tuple[tuple[QueueingHint, Hashable], ...]

    @property
    def claims(self) -> tuple[str, ...]:
        return self.pod.claim_keys if by_claims(self.hints) else ()

    @property
    def volumes(self) -> frozenset[str]:
        return self.wanted.volumes if self.wanted is not None else frozenset()


class UnschedulablePods:
    """Finds the unschedulable pods that a change may help, at a cost that grows with the number of kinds of pods."""

    def __init__(self) -> None:
        self._filed: dict[str, _Filed] = {}
        self._groups: dict[QueueingHint, dict[Hashable, _Alike]] = {}
        self._by_claim: dict[str, _Keys] = {}
        self._by_volume: dict[str, _Keys] = {}

    def __len__(self) -> int:
        return len(self._filed)

    def __iter__(self) -> Iterator[str]:
        return iter(self._filed)

    def add(self, pod: Pod, hints: Hints, wanted: Wanted | None) -> None:
        """Index a pod under the hints of the plugins that rejected it; without any it waits for any change."""
        self.discard(pod.key)
        places = tuple((hint, hint.shape_of(pod, wanted)) for hint in effective(hints))
        filed = self._filed[pod.key] = _Filed(pod, hints, wanted, places)
        for hint, shape in places:
            groups = self._groups.setdefault(hint, {})
            if shape not in groups:
                groups[shape] = _stand_in(pod, wanted)
            groups[shape].keys[pod.key] = None
        for claim_key in filed.claims:
            self._by_claim.setdefault(claim_key, {})[pod.key] = None
        for volume in filed.volumes:
            self._by_volume.setdefault(volume, {})[pod.key] = None

    def discard(self, pod_key: str) -> None:
        """Remove a pod, if it is present."""
        filed = self._filed.pop(pod_key, None)
        if filed is None:
            return
        for hint, shape in filed.places:
            groups = self._groups[hint]
            del groups[shape].keys[pod_key]
            if not groups[shape].keys:
                del groups[shape]
            if not groups:
                # After a new configuration a plugin that is not used any more eventually has no pods left.
                del self._groups[hint]
        for claim_key in filed.claims:
            _unfile(self._by_claim, claim_key, pod_key)
        for volume in filed.volumes:
            _unfile(self._by_volume, volume, pod_key)

    def helped_by(self, change: ClusterEvent) -> list[str]:
        """Return the keys of the pods that may fit a node now."""
        keys: _Keys = {}
        for pod_key in self._named_by(change):
            filed = self._filed[pod_key]
            if may_help(filed.pod, filed.hints, change, filed.wanted):
                keys[pod_key] = None
        for hint, groups in self._groups.items():
            if hint.concerns(change.kind):
                for alike in groups.values():
                    keys.update(dict.fromkeys(self._helped(hint, alike, change)))
        return [pod_key for pod_key in keys if change.concerns(self._filed[pod_key].pod)]

    def _named_by(self, change: ClusterEvent) -> Iterator[str]:
        """Yield the pods whose claims or volumes the change is about."""
        for subject in (change.old, change.new):
            if isinstance(subject, Volume):
                yield from self._by_volume.get(subject.name, ())
            for claim_key in _claims_of(subject):
                yield from self._by_claim.get(claim_key, ())

    def _helped(self, hint: QueueingHint, alike: _Alike, change: ClusterEvent) -> Iterable[str]:
        if not hint.concerns_shape(alike.pod, change, alike.wanted):
            return ()
        if not hint.goes_by_pod:
            return alike.keys
        every = ((key, self._filed[key]) for key in alike.keys)
        return [key for key, filed in every if hint.helps(filed.pod, change, filed.wanted)]


def _claims_of(subject: object) -> tuple[str, ...]:
    if isinstance(subject, Claim):
        return (subject.key,)
    if isinstance(subject, Volume):
        return (subject.claim.key,) if subject.claim is not None else ()
    return subject.claim_keys if isinstance(subject, Pod) and subject.claims else ()


def _stand_in(pod: Pod, wanted: Wanted | None) -> _Alike:
    """Return a group of pods like this one, for changes that are not about a claim or a volume of one of them."""
    general = None if wanted is None else replace(wanted, volumes=frozenset())
    return _Alike(msgspec.structs.replace(pod, claims=()), general)


def _unfile(index: dict[str, _Keys], name: str, pod_key: str) -> None:
    del index[name][pod_key]
    if not index[name]:
        del index[name]
