"""What a pod needs whose volumes are still to be made (mode provision)."""

from collections.abc import Sequence

from binder.matching.matching import class_of
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Mode, Reject, Wait
from binder.model.demand import MAX_CLAIMS, Demand
from binder.model.view import View
from binder.planning.claim_standing import Anchor, LeftAlone, Made, Standing
from binder.planning.commitment import may_commit, unsupported
from binder.reservation.contract import STRICT
from kube.objects.model import Pod, value_of
from kube.store.node_view import used_volume


def demand_of_made(view: View, pod: Pod, standings: Sequence[Standing]) -> Demand | Wait | Reject | None:
    """Return what the pod needs; None if its volumes are left to Kubernetes.

    That is so if a scheduler may be working on the pod or on another one with its claims, if a rule about it is not
    understood, or if volumes that exist are to be chosen for other claims of it. What has been begun is waited for in
    any case: without the gate kube-scheduler could select another node.
    """
    made = [standing for standing in standings if isinstance(standing, Made)]
    bound = [standing.volume for standing in standings if isinstance(standing, Anchor)]
    is_ours = all(isinstance(standing, Made) or _is_bound(standing) for standing in standings)
    open_ = [standing for standing in made if not standing.node and standing.volume is None]
    under_way = [standing for standing in made if standing.node and standing.volume is None]
    if not open_:
        return _split(pod, under_way) or Wait(pod, Reason.PROVISIONING)
    if not is_ours or not may_commit(pod, view.snapshot) or unsupported(pod) or len(open_) > MAX_CLAIMS:
        return Wait(pod, Reason.PROVISIONING) if len(open_) < len(made) else None
    if under_way and not all(_is_strict(view, standing) for standing in (*under_way, *open_)):
        return Wait(pod, Reason.PROVISIONING)
    nodes = frozenset(standing.node for standing in under_way)
    lacking = [standing.claim for standing in (*under_way, *open_)]
    used = ((claim.key, used_volume(view.snapshot, claim)) for claim in lacking)
    return _split(pod, under_way) or Demand(
        pod=pod,
        mode=Mode.PROVISION,
        required=(),
        anchors=(*bound, *(standing.volume for standing in made if standing.volume is not None)),
        nodes=nodes or None,
        begun=len(lacking) < len(standings) or bool(under_way),
        drivers=tuple((key, each[0]) for key, each in used if each is not None),
        made=tuple(standing.claim for standing in open_),
    )


def left_to_kubernetes(standing: Standing) -> Standing:
    """Return a standing that no node is selected for by us."""
    if not isinstance(standing, Made):
        return standing
    if standing.volume is not None:
        return Anchor(standing.volume)
    return LeftAlone(standing.claim, Reason.DYNAMIC_CLASS, standing.node or None)


def _is_bound(standing: Standing) -> bool:
    return isinstance(standing, Anchor) and standing.bound


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
