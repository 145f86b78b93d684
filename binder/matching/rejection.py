"""Why a volume, a node or a pod was rejected: one closed vocabulary, and the evidence.

Events, metrics, logs and the command line's output use the same words.
"""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Every reason for which something is rejected or has to wait."""

    # A volume, by the matching rules of Kubernetes.
    CLAIMED_BY_OTHER = "ClaimedByOther"
    NOT_AVAILABLE = "NotAvailable"
    VOLUME_DELETING = "VolumeDeleting"
    TOO_SMALL = "TooSmall"
    VOLUME_MODE_MISMATCH = "VolumeModeMismatch"
    ACCESS_MODES_MISMATCH = "AccessModesMismatch"
    CLASS_MISMATCH = "StorageClassMismatch"
    ATTRIBUTES_CLASS_MISMATCH = "VolumeAttributesClassMismatch"
    SELECTOR_MISMATCH = "SelectorMismatch"
    SELECTOR_TOO_LARGE = "SelectorTooLarge"
    NODE_AFFINITY_MISMATCH = "NodeAffinityMismatch"
    DELAYED_BINDING = "DelayedBinding"
    LARGER_THAN_CHOSEN = "LargerThanChosen"
    MORE_ACCESS_MODES_THAN_CHOSEN = "MoreAccessModesThanChosen"
    TIED_WITH_CHOSEN = "TiedWithChosen"
    OTHER_VOLUME_PREBOUND = "OtherVolumePrebound"
    OTHER_VOLUME_REQUESTED = "OtherVolumeRequested"
    PROVISIONING_CHOSEN = "ProvisioningChosen"
    TAKEN_BY_OTHER_CLAIM_OF_POD = "TakenByOtherClaimOfPod"
    # A volume, by our own rules.
    RESERVED_FOR_OTHER = "ReservedForOther"
    QUARANTINED = "Quarantined"
    UNHEALTHY = "Unhealthy"
    HEALTH_UNKNOWN = "HealthUnknown"
    TOPOLOGY_CONTRADICTED = "TopologyContradicted"
    # A node, for a pod.
    NODE_MISSING = "NodeMissing"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    NODE_SELECTOR_MISMATCH = "NodeSelectorMismatch"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    VOLUME_UNREACHABLE = "BoundVolumeUnreachable"
    VOLUME_ZONE_MISMATCH = "VolumeZoneMismatch"
    VOLUME_MISSING = "VolumeNotFound"
    PROVISIONING_ELSEWHERE = "ProvisioningElsewhere"
    TOPOLOGY_NOT_ALLOWED = "AllowedTopologiesExcludeNodes"
    INSUFFICIENT_STORAGE = "InsufficientCapacity"
    ATTACH_LIMIT_REACHED = "VolumeLimitReached"
    STORAGE_UNREACHABLE = "StorageUnreachable"
    # A node, for a pod with further constraints.
    POD_AFFINITY_MISMATCH = "PodAffinityMismatch"
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    EXISTING_POD_ANTI_AFFINITY = "ExistingPodAntiAffinity"
    TOPOLOGY_LABEL_MISSING = "TopologyLabelMissing"
    TOPOLOGY_SPREAD = "TopologySpreadExceeded"
    HOST_PORT_TAKEN = "HostPortTaken"
    STORAGE_LABEL_MISSING = "StorageLabelMissing"
    OTHER_POD_PENDING = "OtherPodPending"
    VOLUME_IN_USE = "ReadWriteOncePodInUse"
    DISK_IN_USE = "DiskInUse"
    ENFORCED_NODE_AFFINITY = "EnforcedNodeAffinityMismatch"
    REJECTED_BY_PLUGIN = "RejectedByPlugin"
    PLUGIN_FAILED = "PluginFailed"
    # A claim or a pod as a whole.
    NO_VOLUME_FITS = "StaticOnlyNoMatch"
    NO_JOINT_ASSIGNMENT = "NoJointAssignment"
    NO_NODE_FITS = "NoNodeFits"
    EXPLANATION_PENDING = "ExplanationPending"
    WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
    CLASS_NOT_FOUND = "StorageClassNotFound"
    BINDING_MODE_MISSING = "BindingModeMissing"
    IMMEDIATE_CLAIM = "ImmediateUnbound"
    DYNAMIC_CLASS = "DynamicClass"
    CLAIM_NOT_FOUND = "ClaimNotFound"
    CLAIM_DELETING = "ClaimTerminating"
    CLAIM_LOST = "ClaimLost"
    CLAIM_NOT_OWNED = "ClaimNotOwned"
    REQUESTED_VOLUME_MISSING = "RequestedPVMissing"
    REQUESTED_VOLUME_MISMATCH = "RequestedPVMismatch"
    WAITING_FOR_NEW_NODE = "WaitingForNewNode"
    ROOM_WITHOUT_DISK = "RoomWithoutDisk"
    TOO_MANY_CLAIMS = "TooManyClaims"
    MODE_OFF = "ModeOff"
    POD_GATED = "SchedulingGated"
    POD_ENDED = "PodEnded"
    POD_INVALID = "InvalidPod"
    POD_UNSUPPORTED = "UnsupportedPod"
    ALREADY_RESERVED = "AlreadyReserved"
    NO_UNBOUND_CLAIM = "NoUnboundClaim"
    PROGRESSING = "Progressing"
    PROVISIONING = "Provisioning"
    PROVISIONING_OVERDUE = "ProvisioningOverdue"
    PARTLY_PROVISIONED = "PartlyProvisioned"
    # A pod on its way to the node that was chosen for it.
    CLAIM_RESERVED_ELSEWHERE = "ClaimReservedElsewhere"
    PROVISIONING_FAILED = "ProvisioningFailed"
    BIND_TIMEOUT = "BindTimeout"
    KEPT_CHANGING = "KeptChanging"
    ALREADY_ASSIGNED = "AlreadyAssigned"
    WITHDRAWN = "Withdrawn"
    SCHEDULER_ERROR = "SchedulerError"
    # Why a claim or a pod is still pending, where Kubernetes names only the symptom (why).
    WAIT_FOR_POD_SCHEDULED = "WaitForPodScheduled"
    POD_BYPASSES_SCHEDULER = "PodBypassesScheduler"
    SCHEDULER_NOT_RUNNING = "SchedulerNotRunning"
    NO_STORAGE_CLASS = "NoStorageClass"
    AMBIGUOUS_DEFAULT_CLASS = "AmbiguousDefaultClass"
    PROVISIONER_MISSING = "ProvisionerMissing"
    VOLUME_STILL_CLAIMED = "PVStillClaimed"
    PREBOUND_INCOMPLETE = "PreboundIncomplete"
    TOPOLOGY_CONFLICT = "TopologyConflict"
    VOLUMES_IN_DIFFERENT_ZONES = "VolumesInDifferentZones"
    SELECTED_NODE_STALE = "SelectedNodeStale"
    DRIVER_NOT_ON_NODE = "DriverNotOnNode"
    REQUEST_NOT_SUPPORTED = "RequestNotSupported"
    SELECTOR_ON_DYNAMIC_CLASS = "SelectorOnDynamicClass"
    DATA_SOURCE_NOT_READY = "DataSourceNotReady"
    POPULATOR_PENDING = "PopulatorPending"
    BACKEND_ERROR = "BackendError"
    QUOTA_EXCEEDED = "QuotaExceeded"
    ATTACH_CONFLICT = "AttachConflict"
    EXTENDER_UNAVAILABLE = "ExtenderUnavailable"
    # Besides the binding of claims: what keeps a pod or a claim waiting later on.
    ATTACH_FAILED = "AttachFailed"
    MOUNT_FAILED = "MountFailed"
    RESIZE_PENDING = "ResizePending"
    RESIZE_FAILED = "ResizeFailed"
    MODIFY_PENDING = "ModifyPending"
    DEVICE_CLAIM_PENDING = "ResourceClaimPending"
    VOLUME_TERMINATING = "VolumeTerminating"
    VOLUME_RELEASED = "VolumeReleased"
    VOLUME_FAILED = "VolumeFailed"
    POD_TERMINATING = "PodTerminating"
    # What `why` says of a StatefulSet's replicas to come.
    VOLUMES_HELD = "VolumesHeld"
    VOLUMES_NOT_HELD = "VolumesNotHeld"
    # What `why` reports if there is no problem, or if it is inconclusive.
    BOUND = "Bound"
    SCHEDULED = "Scheduled"
    AVAILABLE = "Available"
    INCONCLUSIVE = "Inconclusive"


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejection: the object, the rule, what the rule wanted and what the object offered.

    `subject` names the volume, node, claim or pod. `wanted` and `offered` are for people, short and exact.
    """

    reason: Reason
    subject: str
    wanted: str
    offered: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason} (wanted {self.wanted}, found {self.offered})"
