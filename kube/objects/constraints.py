"""A pod's scheduling constraints besides nodeSelector, requirements on nodes and tolerations.

Few pods have any, and all pods of one template have the same, so they are one shared record that most pods lack.
"""

from typing import Final

from msgspec import Struct

from kube.objects.labels import LabelSelector, NodeSelectorTerm

GCE: Final = "gcePersistentDisk"
AWS: Final = "awsElasticBlockStore"
AZURE: Final = "azureDisk"
CINDER: Final = "cinder"
ISCSI: Final = "iscsi"
PORTWORX: Final = "portworxVolume"
RBD: Final = "rbd"
"""Fields by which a pod names a disk in its own spec (deprecated in-tree kinds)."""

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
IGNORE: Final = "Ignore"


_EXCLUSIVE: Final = frozenset({GCE, AWS, ISCSI, RBD})
"""Kinds of disks that two pods may not share (isVolumeConflict of plugins/volumerestrictions)."""


class InlineDisk(Struct, frozen=True, gc=False):
    """A disk by the field that names it and by what distinguishes it from others of its kind.

    `monitors` are those of Ceph: disks without a common one are different. For EBS a second read-only user is rejected
    too, so there `read_only` is never true.
    """

    kind: str
    identity: tuple[str, ...]
    monitors: tuple[str, ...] = ()
    read_only: bool = False

    def excludes(self, other: "InlineDisk") -> bool:
        """Whether pods with these two may not be on the same node."""
        if self.kind not in _EXCLUSIVE or self.kind != other.kind or self.identity != other.identity:
            return False
        if self.read_only and other.read_only:
            return False
        return self.kind != RBD or not frozenset(self.monitors).isdisjoint(other.monitors)


class PreferredNodes(Struct, frozen=True, gc=False):
    """A preference for nodes, with a weight of 1 to 100. A term without requirements matches no node."""

    weight: int
    term: NodeSelectorTerm


class PodTerm(Struct, frozen=True, gc=False):
    """A term of pod (anti-)affinity: pods selected by labels, in some namespaces, in one topology domain.

    A selector of None selects no pod, an empty one every pod. Without namespaces and `namespace_selector` (None) the
    term applies to the namespace of its own pod; an empty `namespace_selector` means all namespaces.
    """

    topology_key: str
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class WeightedPodTerm(Struct, frozen=True, gc=False):
    """A preference for or against being near certain pods, with a weight of 1 to 100."""

    weight: int
    term: PodTerm


class SpreadConstraint(Struct, frozen=True, gc=False):
    """One of topologySpreadConstraints. `min_domains` is 1 if not set; a selector of None selects no pod."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str = DO_NOT_SCHEDULE
    selector: LabelSelector | None = None
    min_domains: int = 1
    node_affinity_policy: str = HONOR
    node_taints_policy: str = IGNORE
    match_label_keys: tuple[str, ...] = ()


class HostPort(Struct, frozen=True, gc=False):
    """A port of the node that a container uses. `ip` 0.0.0.0 means all addresses."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"


class Constraints(Struct, frozen=True, gc=False, cache_hash=True):
    """All constraints of one pod. `affinity` and `anti_affinity` are the required terms; `preempts` is
    preemptionPolicy.

    `unsupported` names the fields that affect kube-scheduler's choice of a node and are not supported here.
    """

    preferred_nodes: tuple[PreferredNodes, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_affinity: tuple[WeightedPodTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedPodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    ports: tuple[HostPort, ...] = ()
    disks: tuple[InlineDisk, ...] = ()
    preempts: bool = True
    unsupported: tuple[str, ...] = ()

    @property
    def concerns_pods(self) -> bool:
        """Whether there is any pod (anti-)affinity."""
        return bool(self.affinity or self.anti_affinity or self.preferred_affinity or self.preferred_anti_affinity)

    @property
    def is_required(self) -> bool:
        """Whether any of it can exclude nodes because of other pods."""
        spread = any(constraint.when_unsatisfiable == DO_NOT_SCHEDULE for constraint in self.spread)
        return bool(self.affinity or self.anti_affinity or self.ports or self.disks or spread)


NO_CONSTRAINTS: Final = Constraints()
