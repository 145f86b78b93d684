"""What a pod needs whose volumes are still to be made (mode provision), and what keeps those under way from being made.

What was selected once is not changed here: a provisioner may be at work. Only a person can know that none is.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from binder.matching.matching import class_of
from binder.matching.node_fit import reject_reach
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import COMMITTING, Mode, Reject, Wait
from binder.model.demand import MAX_CLAIMS, Demand
from binder.model.view import View
from binder.planning.claim_standing import Anchor, LeftAlone, Made, Open, Standing
from binder.planning.commitment import may_commit, unsupported
from binder.reservation.contract import STRICT, parse_time
from kube.objects.model import Pod, value_of
from kube.store.node_view import used_volume

OVERDUE_AFTER: Final = timedelta(minutes=5)
"""How long a volume may take after its node was selected before that is reported: half of kube-scheduler's timeout."""
LOOKED_AT_EVERY: Final = timedelta(minutes=1)
"""How often it is checked whether what is under way still can be made: a node that goes wakes no pod."""


def demand_of_made(view: View, pod: Pod, standings: Sequence[Standing], now: datetime) -> Demand | Wait | Reject | None:
    """Return what the pod needs; None if its volumes are left to Kubernetes.

    That is so if a scheduler may be working on the pod or on another one with its claims, if a rule about it is not
    understood, or if other claims of it are not ours to decide. What has been begun is waited for in any case: without
    the gate kube-scheduler could select another node. Existing volumes for other claims are set aside meanwhile.
    """
    made = [standing for standing in standings if isinstance(standing, Made)]
    bound = [standing.volume for standing in standings if isinstance(standing, Anchor)]
    chosen = [standing for standing in standings if isinstance(standing, Open)]
    is_ours = all(_is_ours(view, pod, standing) for standing in standings)
    open_ = [standing for standing in made if not standing.node and standing.volume is None]
    under_way = [standing for standing in made if standing.node and standing.volume is None]
    if not open_ and (all(standing.pin for standing in chosen) or not is_ours):
        return _under_way(view, pod, under_way, now)
    too_many = len(open_) + len(chosen) > MAX_CLAIMS
    if not is_ours or not may_commit(pod, view.snapshot) or unsupported(pod) or too_many:
        return _under_way(view, pod, under_way, now) if len(open_) < len(made) else None
    if under_way and not all(_is_strict(view, standing) for standing in (*under_way, *open_)):
        return _under_way(view, pod, under_way, now)
    lacking = [standing.claim for standing in (*under_way, *open_)]
    used = ((claim.key, used_volume(view.snapshot, claim)) for claim in lacking)
    return _split(pod, under_way) or Demand(
        pod=pod,
        mode=Mode.PROVISION,
        required=tuple(standing.claim for standing in chosen),
        anchors=(*bound, *(standing.volume for standing in made if standing.volume is not None)),
        pins=tuple((standing.claim.key, standing.pin) for standing in chosen if standing.pin),
        nodes=_only_nodes(view, under_way, open_),
        begun=len(lacking) + len(chosen) < len(standings) or bool(under_way),
        drivers=tuple((key, each[0]) for key, each in used if each is not None),
        made=tuple(standing.claim for standing in open_),
    )


def _only_nodes(view: View, under_way: Sequence[Made], open_: Sequence[Made]) -> frozenset[str] | None:
    """Return the only nodes for the volumes still to be made, None for any.

    That are those of the volumes under way, and those where all originals of copies are: a local driver copies nowhere
    else. A snapshot may be on one node as well.
    """
    originals = [standing.original for standing in open_ if standing.original is not None]
    allowed = [frozenset((standing.source_node,)) for standing in open_ if standing.source_node]
    if under_way:
        allowed.append(frozenset(standing.node for standing in under_way))
    nodes = frozenset.intersection(*allowed) if allowed else None
    if not originals:
        return nodes
    known = view.snapshot.nodes
    among = known.values() if nodes is None else (known[name] for name in nodes if name in known)
    return frozenset(node.name for node in among if reject_reach(originals, node) is None)


def left_to_kubernetes(standing: Standing) -> Standing:
    """Return a standing that no node is selected for by us."""
    if not isinstance(standing, Made):
        return standing
    if standing.volume is not None:
        return Anchor(standing.volume)
    return LeftAlone(standing.claim, Reason.DYNAMIC_CLASS, standing.node or None)


def _is_ours(view: View, pod: Pod, standing: Standing) -> bool:
    """Whether nothing but our decision is missing for the claim, so that it can be decided with the others.

    A claim that other pods use as well needs a volume that lets each of them run.
    """
    if isinstance(standing, Open):
        users = view.snapshot.pods_by_claim.get(standing.claim.key, ())
        return not standing.optional and standing.mode in COMMITTING and set(users) <= {pod.key}
    return isinstance(standing, Made) or (isinstance(standing, Anchor) and standing.bound)


def _is_strict(view: View, standing: Made) -> bool:
    storage_class = view.snapshot.classes[class_of(standing.claim)]
    return value_of(storage_class.annotations, view.settings.annotations.topology) == STRICT


def _split(pod: Pod, under_way: Sequence[Made]) -> Reject | None:
    """Return a rejection if volumes are being made for different nodes: no node will reach all of them."""
    nodes = {standing.node for standing in under_way}
    if len(nodes) < 2:
        return None
    wanted = "one node selected for all claims of the pod"
    evidence = [Rejection(Reason.PROVISIONING_ELSEWHERE, each.claim.key, wanted, each.node) for each in under_way]
    return Reject(pod, Reason.PARTLY_PROVISIONED, tuple(evidence))


def _under_way(view: View, pod: Pod, under_way: Sequence[Made], now: datetime) -> Wait | Reject:
    """Return that the pod waits for these volumes, or why they will not be made without help."""
    split = _split(pod, under_way)
    if split is not None:
        return split
    pinned = [rejection for standing in under_way if (rejection := _pinned(view, standing)) is not None]
    if pinned:
        return Reject(pod, pinned[0].reason, tuple(pinned), begun=True)
    since = dict(_selected(view, under_way))
    overdue = [claim for claim, selected in since.items() if now - selected >= OVERDUE_AFTER]
    if not overdue:
        until = min((now + LOOKED_AT_EVERY, *(selected + OVERDUE_AFTER for selected in since.values())))
        return Wait(pod, Reason.PROVISIONING, until)
    wanted = f"a volume within {int(OVERDUE_AFTER.total_seconds() // 60)} minutes"
    nodes = {standing.claim.key: standing.node for standing in under_way}
    evidence = (Rejection(Reason.PROVISIONING, key, wanted, f"none for node {nodes[key]} yet") for key in overdue)
    return Reject(pod, Reason.PROVISIONING_OVERDUE, tuple(evidence), begun=True)


def _pinned(view: View, standing: Made) -> Rejection | None:
    """Return why no provisioner can make the volume for its node: that is gone, or the driver is not there any more.

    Provisioners that run on each node do not take back a node that is gone, and none takes back one without its driver.
    """
    if standing.node not in view.snapshot.nodes:
        return Rejection(Reason.SELECTED_NODE_STALE, standing.claim.key, "an existing node", f"node {standing.node}")
    driver = view.snapshot.classes[class_of(standing.claim)].provisioner
    csi_node = view.snapshot.csi_nodes.get(standing.node)
    if driver not in view.snapshot.csi_drivers or csi_node is None:
        return None
    if any(registered.name == driver for registered in csi_node.drivers):
        return None
    wanted, offered = f"CSI driver {driver} on node {standing.node}", "not registered there any more"
    return Rejection(Reason.DRIVER_NOT_ON_NODE, standing.claim.key, wanted, offered)


def _selected(view: View, under_way: Sequence[Made]) -> Iterator[tuple[str, datetime]]:
    for standing in under_way:
        selected = parse_time(value_of(standing.claim.annotations, view.settings.annotations.selected_at))
        if selected is not None:
            yield standing.claim.key, selected
