"""The order in which checks run: the first one with a finding is the root cause.

A cause comes before everything that it makes impossible, so that no symptom is ever shown: for a claim whose class does
not exist the missing provisioner is not reported, and for a pod whose claim cannot be bound the nodes are not. Within
that, the order of diagnosis is claim, class, volumes, provisioner, pod, scheduler, nodes.
"""

from typing import Final

from why.causes import assigned_node, reported, volume_state
from why.causes.autoscalers import ahead
from why.causes.claims import (
    allowed_topologies,
    capacity,
    claim_and_class,
    data_sources,
    lifecycle,
    modification,
    provisioning,
    unread_class,
    volumes,
)
from why.causes.finding import ClaimCheck, PodCheck, VolumeCheck
from why.causes.pods import (
    attach_conflict,
    attachment,
    devices,
    missing_volumes,
    mount_events,
    pool_sums,
    scheduling,
    topology,
    unread_nodes,
)

CLAIM_CHECKS: Final[tuple[ClaimCheck, ...]] = (
    # The claim cannot be rescued, or is tied to one volume: nothing else about it matters.
    claim_and_class.lost,
    lifecycle.terminating,
    volumes.requested_missing,
    volumes.requested_mismatch,
    volumes.still_claimed,
    volumes.prebound_incomplete,
    # Its class.
    volumes.classless_held_by_a_deleted_claim,
    claim_and_class.no_storage_class,
    claim_and_class.class_not_found,
    # What no provisioner ever accepts, whichever pod uses the claim.
    claim_and_class.selector_on_dynamic_class,
    # No pod uses it: nothing below has been tried yet.
    claim_and_class.waits_for_first_consumer,
    scheduling.bypasses_scheduler,
    # Existing volumes.
    claim_and_class.selector_too_large,
    volumes.reserved_incomplete,
    volumes.kept_for_it,
    volumes.quarantined,
    volumes.kept_for_another,
    volumes.held_by_a_deleted_claim,
    volumes.static_only_no_match,
    # What provisions new ones, where, and from what.
    provisioning.provisioner_missing,
    data_sources.data_source_not_ready,
    data_sources.populator_pending,
    provisioning.selected_node_stale,
    provisioning.driver_on_no_node,
    provisioning.no_allowed_topology,
    capacity.no_capacity,
    # Whatever it reported before it stopped.
    provisioning.provisioner_stopped,
    # What the provisioner itself reports, or that it reports nothing.
    allowed_topologies.chosen_node_not_allowed,
    reported.rejected_by_provisioner,
    provisioning.provisioner_silent,
    # Explain a claim only if nothing else does.
    claim_and_class.ambiguous_default_class,
    claim_and_class.default_class_not_given,
    volumes.left_unbound,
)
"""For a claim that is not bound. What remains is explained by the pod that waits for it."""

UNREAD_CLAIM_CHECKS: Final[tuple[ClaimCheck, ...]] = (
    reported.rejected_by_provisioner,
    unread_class.reported_mismatch,
    unread_class.reported_class_not_found,
    unread_class.reported_without_class,
    unread_class.reported_first_consumer,
    scheduling.reported_bypass,
    unread_class.reported_silence,
)
"""For a claim that is not bound when something could not be read, such as its class: what other components report."""

BOUND_CLAIM_CHECKS: Final[tuple[ClaimCheck, ...]] = (
    claim_and_class.lost,
    lifecycle.terminating,
    claim_and_class.about_to_be_lost,
    lifecycle.resize,
    modification.modification,
)
"""For a claim whose bind is complete."""

POD_FIRST_CHECKS: Final[tuple[PodCheck, ...]] = (
    scheduling.claim_not_found,
    scheduling.claim_not_owned,
    devices.device_claim_missing,
    # Where some of its volumes are decides about the others: what is said of these alone is only a symptom.
    pool_sums.partly_provisioned,
)
"""For a pod, before its claims."""

LEFT_TO_AUTOSCALER: Final[tuple[PodCheck, ...]] = (ahead.left_for_new_node,)
"""For a pod without a node, before its claims too: what these lack, the node is to bring that it waits for."""

DECISIVE: Final = frozenset[ClaimCheck]({claim_and_class.waits_for_first_consumer})
"""Checks without whose result the following ones mean nothing: their findings may be normal."""

POD_CHECKS: Final[tuple[PodCheck, ...]] = (
    # Our own gate, and what keeps the controller from removing it.
    volumes.held_back,
    pool_sums.no_room_for_all,
    reported.rejected_by_controller,
    # No scheduler has considered the pod: the state of nodes is not the reason yet.
    scheduling.gated_by_others,
    scheduling.scheduler_not_running,
    reported.extender_unavailable,
    reported.reported_by_other_scheduler,
    # A node was chosen already: the state of the others is no reason any more.
    scheduling.nominated,
    # Its volumes were bound for a node that is still to be added: that no present node fits is known.
    ahead.waiting_for_new_node,
    # What no node can resolve, before what some node could.
    lifecycle.used_by_another_pod,
    topology.volumes_in_different_zones,
    topology.volume_limit_reached,
    topology.without_driver,
    topology.topology_conflict,
    missing_volumes.volumes_rule_out_nodes,
    topology.no_node_fits,
    # The controller keeps its gate for as long as no node has volumes for the pod, so the nodes come first.
    scheduling.gated,
    devices.device_claim_pending,
    # Last, what only a text or its absence shows: nodes that an extender rejects, and symptoms without a visible cause.
    reported.rejected_by_extender,
    reported.bind_timeout,
    reported.no_free_storage,
    provisioning.provisioner_never_seen,
)
"""For a pod without a node, after its claims."""

UNREAD_POD_CHECKS: Final[tuple[PodCheck, ...]] = (scheduling.claim_rejected, unread_nodes.reported_by_scheduler)
"""For a pod without a node when something could not be read, such as the nodes: what its scheduler reports."""

PLACED_POD_CHECKS: Final[tuple[PodCheck, ...]] = (
    scheduling.bypassed_scheduler,
    topology.assigned_out_of_reach,
    # Without its kubelet nothing starts the pod, whatever was reported before.
    assigned_node.node_unreachable,
    attach_conflict.attach_conflict,
    attachment.driver_not_on_node,
    attachment.volume_unhealthy,
    attachment.attach_failed,
    attachment.attacher_silent,
    attachment.reported_by_kubelet,
    mount_events.path_not_prepared,
    assigned_node.node_missing,
    assigned_node.node_not_ready,
)
"""For a pod on a node that does not run yet, after its claims."""

RUNNING_POD_CHECKS: Final[tuple[PodCheck, ...]] = (assigned_node.node_lost,)
"""For a pod that its kubelet has last reported as running."""

VOLUME_CHECKS: Final[tuple[VolumeCheck, ...]] = (
    volume_state.volume_terminating,
    volume_state.volume_quarantined,
    volume_state.volume_set_aside,
    volume_state.volume_unhealthy,
    volume_state.volume_failed,
    volume_state.volume_released,
    volume_state.volume_orphaned,
    volume_state.volume_not_processed,
    volume_state.volume_as_it_should_be,
)
"""For a volume."""
