"""A change in the cluster, as far as it may make a rejected pod schedulable."""

from dataclasses import dataclass, field
from typing import TypeAlias

from kube.objects.model import Pod, Record

Kind: TypeAlias = type[Record]


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An object before and after; None if it did not or does not exist. At least one of the two is set.

    A pod is included only while it is on a node, a finished one counts as gone, and one that was recreated under its
    name is two changes. `drivers` are the CSI drivers that may have one volume less to attach somewhere.
    `most_priority`, if set, is that of the most important pods concerned.
    """

    old: Record | None
    new: Record | None
    drivers: frozenset[str] = frozenset()
    most_priority: int | None = None

    def concerns(self, pod: Pod) -> bool:
        """Whether the change can make a difference to a waiting pod. What a pod gave up itself makes none to it."""
        if self.most_priority is not None and pod.priority > self.most_priority:
            return False
        return self.new is not None or not isinstance(self.old, Pod) or self.old.uid != pod.uid

    @property
    def kind(self) -> Kind:
        item = self.old if self.new is None else self.new
        assert item is not None
        return type(item)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a rejected pod waits for besides its own fields, looked up when it was rejected.

    `classes` are those of its claims without a volume, `volumes` the names of those it has or that are reserved for it,
    `drivers` those that have to attach something for it. `whole`: it was rejected before any node was evaluated.
    `topology_keys` are those of the terms by which placed pods keep it out, None if they were not looked up. `sharing`
    are the classes whose volumes are provisioned from the storage of `classes`, these included: a report about one of
    them is about all. `again_in` are the seconds after which the pod is retried although nothing was reported that
    helps it, None if nothing else can. Nothing else has to be known of what changes later: it can only keep the pod out
    as well, or it requeues the pod.
    """

    classes: frozenset[str] = frozenset()
    volumes: frozenset[str] = frozenset()
    drivers: frozenset[str] = frozenset()
    whole: bool = False
    topology_keys: frozenset[str] | None = None
    sharing: frozenset[str] = frozenset()
    again_in: float | None = field(default=None, compare=False)
