"""The order in which checks are asked: the first that finds something is the root cause.

A cause stands before everything that it makes impossible, so that no symptom is ever shown: a claim whose class does
not exist is not told that its provisioner is missing, and a pod whose claim cannot be bound is not told that no node
fits. Within that, the order of diagnosis is claim, class, volumes, provisioner, pod, scheduler, nodes.
"""

from typing import Final

from prebinder.why.causes import claim_and_class, provisioning, scheduling, topology, volumes
from prebinder.why.causes.finding import ClaimCheck, PodCheck

CLAIM_CHECKS: Final[tuple[ClaimCheck, ...]] = (
    # The claim is past saving, or tied to one volume: nothing else about it matters.
    claim_and_class.lost,
    volumes.requested_missing,
    volumes.still_claimed,
    volumes.requested_mismatch,
    volumes.prebound_incomplete,
    # Its class.
    claim_and_class.no_storage_class,
    claim_and_class.class_not_found,
    claim_and_class.binding_mode_missing,
    # What no provisioner ever accepts, whoever uses the claim.
    claim_and_class.selector_on_dynamic_class,
    # Nobody uses it: nothing below has been tried yet.
    claim_and_class.waits_for_first_consumer,
    scheduling.bypasses_scheduler,
    # Volumes that are there, then who makes new ones.
    volumes.static_only_no_match,
    provisioning.provisioner_missing,
)
"""About a claim that is not bound. What remains is explained by the pod that waits for it."""

POD_FIRST_CHECKS: Final[tuple[PodCheck, ...]] = (scheduling.claim_not_found,)
"""About a pod before its claims."""

POD_CHECKS: Final[tuple[PodCheck, ...]] = (
    # Nobody has looked at the pod: what nodes would say is not the reason yet.
    scheduling.scheduling_gated,
    scheduling.scheduler_not_running,
    # What no node can mend, before what some node could.
    topology.volumes_in_different_zones,
    topology.topology_conflict,
    topology.no_node_fits,
)
"""About a pod without a node, after its claims."""
