"""What a pod still needs, as a frozen value: the claims to plan for, and what restricts where the pod may run."""

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from binder.matching.claim_shape import ClaimShape, UserNeeds, shape_of
from binder.model.decision import Mode
from kube.objects.model import Claim, Pod, Volume

MAX_CLAIMS: Final = 64
"""Claims planned for one pod. The cost of a joint assignment grows at least with the square of their number; nodes of
large clouds hardly attach more volumes than that to all of their pods.
"""


@dataclass(frozen=True)
class Demand:
    """A pod and its unbound claims that are ours to plan.

    `required`: claims that must all get a volume. `optional`: claims of classes that can provision, which take a volume
    if one fits and are otherwise left to Kubernetes. `anchors`: volumes that the pod has or that are reserved for it,
    which must be accessible from its node. `pins`: claim key -> the one volume whose own side of a reservation already
    names the claim. `nodes`: the only possible nodes, None for all. `hints`: volume and claim of the pod's hints, which
    are made again because the volumes may now be committed. `limits`: why the volumes are not committed although the
    mode of the classes allows it (binder.planning.commitment). `begun`: a bind of one of its claims has begun, so that
    it is permanently tied to that volume. `drivers`: claim key -> the driver of which the claim counts as a volume
    towards attach limits as long as it has none, for claims that may remain without. `shared`: claim key -> what other
    gated pods that use the claim need, where that differs from this pod's needs; `sharers` are the keys of those pods.
    `users`: other gated pods that use its open claims, and the volumes that they have, some of them if there are many.
    `made`: claims for which a volume is to be made (mode provision); then the volumes of `required` ones are set aside.
    """

    pod: Pod
    mode: Mode
    required: tuple[Claim, ...]
    optional: tuple[Claim, ...] = ()
    anchors: tuple[Volume, ...] = ()
    pins: tuple[tuple[str, str], ...] = ()
    nodes: frozenset[str] | None = None
    hints: tuple[tuple[str, Claim], ...] = ()
    limits: tuple[str, ...] = ()
    begun: bool = False
    drivers: tuple[tuple[str, str], ...] = ()
    shared: tuple[tuple[str, tuple[UserNeeds, ...]], ...] = ()
    sharers: tuple[str, ...] = ()
    users: tuple[tuple[Pod, tuple[Volume, ...]], ...] = ()
    made: tuple[Claim, ...] = ()

    @property
    def urgency(self) -> tuple[bool, int, float, str]:
        """Sort key among pods: first those tied to a volume already, then higher priority, then older, then by name.

        A bind that has begun is not undone: its pod would wait for ever for a volume taken by a more urgent one.
        """
        created = self.pod.created
        return (not self.begun, -self.pod.priority, created.timestamp() if created else float("inf"), self.pod.key)

    @cached_property
    def needs_of_node(self) -> tuple[object, ...]:
        """Everything of the pod that determines which nodes fit it: pods equal in it are interchangeable for a node."""
        pod = self.pod
        return (
            pod.requests,
            pod.node_selector,
            pod.node_affinity,
            pod.tolerations,
            pod.node_name,
            self.nodes,
            tuple([volume.name for volume in self.anchors]),
        )

    @cached_property
    def kind(self) -> tuple[object, ...]:
        """Equal for demands that are fully interchangeable."""
        return (
            self.needs_of_node,
            frozenset(Counter(map(self.shape_of, self.required)).items()),
            frozenset(Counter(map(self.shape_of, self.optional)).items()),
            frozenset(Counter(map(self.shape_of, self.made)).items()),
            tuple(sorted(driver for _, driver in self.drivers)),
        )

    def drivers_beside(self, served: Container[str]) -> tuple[str, ...]:
        """Return the drivers of the volumes that are still to be provisioned if these claims get existing ones."""
        return tuple(driver for key, driver in self.drivers if key not in served)

    def pin_of(self, claim: Claim) -> str:
        """Return the volume that the claim is pinned to, empty if it may take any."""
        return next((volume for key, volume in self.pins if key == claim.key), "")

    def shape_of(self, claim: Claim) -> ClaimShape:
        """Return the claim's shape, its pin included: claims of equal shape are interchangeable in a pass."""
        return self._shapes.get(claim.key) or self._shape(claim)

    @cached_property
    def _shapes(self) -> Mapping[str, ClaimShape]:
        return {claim.key: self._shape(claim) for claim in (*self.required, *self.optional, *self.made)}

    def _shape(self, claim: Claim) -> ClaimShape:
        users = next((needs for key, needs in self.shared if key == claim.key), ())
        return shape_of(claim, self.pin_of(claim), users)
