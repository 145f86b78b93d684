"""Which changes in the cluster may let a refused pod in: each plugin says it of its own refusals (KEP-4247).

A pod waits for the plugins that refused it: on each node the first one that did. A hint may wake a pod in vain, but
must never let it sleep through what would have helped.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from kube.objects.model import Pod
from scheduler.framework.cluster_event import ClusterEvent, Kind, Wanted

Helps = Callable[[Pod, ClusterEvent, Wanted | None], bool]
Shape = Callable[[Pod, Wanted | None], Hashable]


@dataclass(frozen=True, slots=True, eq=False)
class QueueingHint:
    """What may help a pod that one plugin refused (EventsToRegister and QueueingHintFn of kube-scheduler).

    `helps(pod, change, wanted)` is asked about objects of these `kinds`, None: about all; `wanted` is None when nobody
    looked it up. Without a `shape` it is asked for each pod; with one it goes by nothing but the pod's
    `shape(pod, wanted)`, unless the change is about a claim of the pod or a volume that it wants: so pods of one shape
    are asked about together. `coarse`, if there is one, is asked first: it goes by the shape and is true wherever
    `helps` is, and `helps` has the last word for each pod. `claims`: any change of the pod's claims may help.
    """

    kinds: frozenset[Kind] | None
    helps: Helps
    shape: Shape | None = None
    coarse: Helps | None = None
    claims: bool = False

    def concerns(self, kind: Kind) -> bool:
        return self.kinds is None or kind in self.kinds

    def shape_of(self, pod: Pod, wanted: Wanted | None) -> Hashable:
        """Return what pods have in common that are asked about together."""
        return () if self.shape is None else self.shape(pod, wanted)

    def concerns_shape(self, pod: Pod, change: ClusterEvent, wanted: Wanted | None) -> bool:
        """Whether pods of this one's shape may be helped."""
        return self.shape is None or (self.coarse or self.helps)(pod, change, wanted)

    @property
    def goes_by_pod(self) -> bool:
        """Whether `helps` is to be asked for each pod of a shape."""
        return self.shape is None or self.coarse is not None


def all_alike(_: Pod, __: Wanted | None) -> Hashable:
    """Return the shape of pods for a hint that goes by nothing of the pod."""
    return ()


def _always(_: Pod, __: ClusterEvent, ___: Wanted | None) -> bool:
    return True


ANYTHING_HELPS: Final = QueueingHint(None, _always, all_alike)
"""The hint of a plugin that says nothing: whatever changes, the pod is tried again."""


def any_change_of(*kinds: Kind) -> QueueingHint:
    """Return the hint of a plugin whose refusals any change of such objects may turn round."""
    return QueueingHint(frozenset(kinds), _always, all_alike)
