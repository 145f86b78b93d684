"""Everything a pass may read, as one frozen value: the cluster, our holds, the volumes' health, the settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from binder.health.node_storage import NodeStorage
from binder.matching.index import VolumeIndex
from binder.model.decision import Mode
from binder.model.ledger import Ledger
from binder.model.new_nodes import NewNodes
from binder.model.source_snapshot import SourceSnapshots
from binder.model.waiting_pod import Waiting
from binder.provisioning.ledger import PoolLedger
from binder.reservation.contract import Annotations
from csi.health.verdict import Verdict
from kube.objects.model import Claim
from kube.persistent_map import Map
from kube.store.snapshot import Snapshot


class UnknownHealth(StrEnum):
    """What happens to a volume whose driver was probed and could not report."""

    BLOCK = "block"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The user's settings for planning.

    `default_mode` holds for classes that name no mode. `unknown_health` None means: block if we have an endpoint
    configured for the volume's driver (`gated_drivers`), else allow. `health_max_age`: an older verdict does not count,
    so that the volume is probed again. `allow_delete_policy`: in mode complete, finish the bind also of volumes whose
    reclaim policy is not Retain; without it pods with such volumes get the prebind form. `dynamic_mode` holds for
    classes that provision and name no mode, None for the same as of others. Without `provision` no class is in mode
    provision.
    """

    default_mode: Mode = Mode.ANNOTATE
    unknown_health: UnknownHealth | None = None
    gated_drivers: frozenset[str] = frozenset()
    health_max_age: timedelta = timedelta(seconds=60)
    annotations: Annotations = field(default_factory=Annotations)
    allow_delete_policy: bool = False
    dynamic_mode: Mode | None = None
    provision: bool = True


@dataclass(frozen=True, slots=True)
class View:
    """A view: `index` holds the Available volumes of `snapshot`, `verdicts` are by (driver, volume handle).

    `hints`: volume -> the claim that had it as a hint, which blocks no other claim in this pass. `silent`: a driver
    that does not respond -> the verdict on each of its volumes without a recent one. `node_storage` is only a cache of
    what follows from the snapshot; successive views share it. `pools`: what is left of storage from which volumes are
    provisioned. `new_nodes`: what is known of nodes to come, None if none is planned for. `waiting`: the pods that wait
    for a node, as the snapshot shows them, None if that is still to be computed. `sources`: the snapshots from which
    volumes of the pass are to be filled.
    """

    snapshot: Snapshot
    index: VolumeIndex
    ledger: Ledger = field(default_factory=Ledger)
    verdicts: Mapping[tuple[str, str], Verdict] = Map()
    settings: PlanSettings = field(default_factory=PlanSettings)
    hints: Mapping[str, Claim] = Map()
    silent: Mapping[str, Verdict] = Map()
    pools: PoolLedger = field(default_factory=PoolLedger, compare=False, repr=False)
    new_nodes: NewNodes | None = None
    sources: SourceSnapshots = Map()
    waiting: Waiting | None = field(default=None, compare=False, repr=False)
    node_storage: NodeStorage = field(default_factory=NodeStorage, compare=False, repr=False)
