"""What a pod says about where it wants to run beside nodeSelector, requirements on nodes and tolerations.

Few pods say any of it and all pods of one template say the same, so it is one shared record that most pods lack.
"""

from typing import Final

from msgspec import Struct

from kube.objects.model import LabelSelector, NodeSelectorTerm

GCE: Final = "gcePersistentDisk"
AWS: Final = "awsElasticBlockStore"
ISCSI: Final = "iscsi"
RBD: Final = "rbd"
"""Fields by which a pod names a disk in its own spec (deprecated in-tree kinds)."""

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
IGNORE: Final = "Ignore"


class InlineDisk(Struct, frozen=True, gc=False):
    """A disk by the field that names it and by what tells it from others of its kind.

    `monitors` are those of Ceph: disks without a common one are different. Of EBS a second read-only user is refused
    too, so there `read_only` is never true.
    """

    kind: str
    identity: tuple[str, ...]
    monitors: tuple[str, ...] = ()
    read_only: bool = False

    def excludes(self, other: "InlineDisk") -> bool:
        """Whether pods with these two may not be on one node."""
        if self.kind != other.kind or self.identity != other.identity or (self.read_only and other.read_only):
            return False
        return self.kind != RBD or not frozenset(self.monitors).isdisjoint(other.monitors)


class PreferredNodes(Struct, frozen=True, gc=False):
    """A wish for nodes, worth 1 to 100. A term without requirements matches no node."""

    weight: int
    term: NodeSelectorTerm


class PodTerm(Struct, frozen=True, gc=False):
    """One term of pod (anti-)affinity: pods selected by labels, in some namespaces, in one topology domain.

    A selector of None selects no pod, an empty one every pod. Without namespaces and `namespace_selector` (None) the
    term means the namespace of its own pod; an empty `namespace_selector` means all namespaces.
    """

    topology_key: str
    selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class WeightedPodTerm(Struct, frozen=True, gc=False):
    """A wish for or against the neighbourhood of pods, worth 1 to 100."""

    weight: int
    term: PodTerm


class SpreadConstraint(Struct, frozen=True, gc=False):
    """One of topologySpreadConstraints. `min_domains` is 1 when not said; a selector of None selects no pod."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str = DO_NOT_SCHEDULE
    selector: LabelSelector | None = None
    min_domains: int = 1
    node_affinity_policy: str = HONOR
    node_taints_policy: str = IGNORE
    match_label_keys: tuple[str, ...] = ()


class HostPort(Struct, frozen=True, gc=False):
    """A port of the node that a container takes. `ip` 0.0.0.0 is all addresses."""

    port: int
    protocol: str = "TCP"
    ip: str = "0.0.0.0"


class Constraints(Struct, frozen=True, gc=False):
    """All of it for one pod. `affinity` and `anti_affinity` are the required terms; `preempts` is preemptionPolicy.

    `unsupported` names the fields by which kube-scheduler chooses a node and that nobody here understands.
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
        """Whether any of it can keep the pod off a node because of other pods."""
        spread = any(constraint.when_unsatisfiable == DO_NOT_SCHEDULE for constraint in self.spread)
        return bool(self.affinity or self.anti_affinity or self.ports or self.disks or spread)


NO_CONSTRAINTS: Final = Constraints()
