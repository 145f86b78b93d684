"""A change in the cluster, as far as it may let a refused pod in."""

from dataclasses import dataclass, field
from typing import TypeAlias

from kube.objects.model import Pod, Record

Kind: TypeAlias = type[Record]


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An object before and after; None where it was not, or is no more. One of the two is there.

    A pod is here only while it is on a node, a finished one is gone, and one that was made anew under its name is
    two changes. `drivers` are the CSI drivers that may have one volume less to attach somewhere. `most_priority`, if
    there is one, is that of the most important pods that are concerned.
    """

    old: Record | None
    new: Record | None
    drivers: frozenset[str] = frozenset()
    most_priority: int | None = None

    def concerns(self, pod: Pod) -> bool:
        """Whether the change can make a difference to a pod that waits. What a pod gave up itself makes none to it."""
        if self.most_priority is not None and pod.priority > self.most_priority:
            return False
        return self.new is not None or not isinstance(self.old, Pod) or self.old.uid != pod.uid

    @property
    def kind(self) -> Kind:
        """The kind of the object."""
        found = self.old if self.new is None else self.new
        assert found is not None
        return type(found)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a refused pod waits for beside what it says itself, looked up when it was refused.

    `classes` are those of its claims without a volume, `volumes` the names of those it has or was promised, `drivers`
    those that have to attach something for it. `whole`: it was refused before any node was looked at. `again_in` are
    the seconds after which time alone may help, None if it cannot. What changes here changes with one of the pod's
    claims, and that wakes it anyhow.
    """

    classes: frozenset[str] = frozenset()
    volumes: frozenset[str] = frozenset()
    drivers: frozenset[str] = frozenset()
    whole: bool = False
    again_in: float | None = field(default=None, compare=False)
