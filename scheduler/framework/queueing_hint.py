"""Which changes in the cluster may make a rejected pod schedulable: each plugin declares it for its own rejections
(KEP-4247).

A pod waits for the plugins that rejected it: on each node the first one that did. A hint may requeue a pod in vain, but
must never miss a change that would have helped.
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
    """What may help a pod that a plugin rejected (EventsToRegister and QueueingHintFn of kube-scheduler).

    `helps(pod, change, wanted)` is called for objects of these `kinds`, None: for all; `wanted` is None if it was not
    looked up. Without a `shape` it is called for each pod; with one it depends on the pod's `shape(pod, wanted)` only,
    unless the change is about a claim of the pod or a volume that it wants: so it is called once for pods of one shape.
    `coarse`, if set, is called first: it depends on the shape only and is true wherever `helps` is; `helps` then
    decides for each pod. `claims`: any change of the pod's claims may help.
    """

    kinds: frozenset[Kind] | None
    helps: Helps
    shape: Shape | None = None
    coarse: Helps | None = None
    claims: bool = False

    def concerns(self, kind: Kind) -> bool:
        return self.kinds is None or kind in self.kinds

    def shape_of(self, pod: Pod, wanted: Wanted | None) -> Hashable:
        """Return what pods have in common for which the hint is evaluated together."""
        return () if self.shape is None else self.shape(pod, wanted)

    def concerns_shape(self, pod: Pod, change: ClusterEvent, wanted: Wanted | None) -> bool:
        """Whether pods of this one's shape may be helped."""
        return self.shape is None or (self.coarse or self.helps)(pod, change, wanted)

    @property
    def goes_by_pod(self) -> bool:
        """Whether `helps` has to be called for each pod of a shape."""
        return self.shape is None or self.coarse is not None


def all_alike(_: Pod, __: Wanted | None) -> Hashable:
    """Return the shape of pods for a hint that does not depend on the pod."""
    return ()


def _always(_: Pod, __: ClusterEvent, ___: Wanted | None) -> bool:
    return True


ANYTHING_HELPS: Final = QueueingHint(None, _always, all_alike)
"""The hint of a plugin that declares none: any change requeues the pod."""


def any_change_of(*kinds: Kind) -> QueueingHint:
    """Return the hint of a plugin whose rejections any change of such objects may resolve."""
    return QueueingHint(frozenset(kinds), _always, all_alike)
