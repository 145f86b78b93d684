"""What a pod needs of us, from where each of its claims stands (binder.planning.claim_standing), and why if nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from binder.matching.claim_shape import UserNeeds
from binder.matching.node_fit import reject_reach
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import COMMITTING, Finish, Mode, Placement, Reject, Wait
from binder.model.demand import MAX_CLAIMS, Demand
from binder.model.view import View
from binder.model.waiting_pod import waiting_pod
from binder.planning.claim_standing import Anchor, Hinted, LeftAlone, Made, Open, Standing, standing_of
from binder.planning.commitment import finish_of, hint_only, may_commit
from binder.planning.made_volumes import demand_of_made, left_to_kubernetes
from binder.reservation.set_aside import set_aside_keys
from kube.objects.model import READ_WRITE_ONCE_POD, Claim, Pod, Volume
from kube.store.node_view import used_volume

_MAX_USERS: Final = 16
"""Other users of a pod's claims for which room is looked for."""
_WEAKEST_FIRST: Final = (Mode.OFF, Mode.ANNOTATE, Mode.PREBIND, Mode.COMPLETE)


def demand_of(view: View, pod: Pod, now: datetime) -> Demand | Finish | Wait | Reject:
    """Return what the pod needs of us, or why that is nothing.

    A pod has one mode, the weakest of its open claims' classes, because its claims are reserved all or none; claims of
    classes in mode off are not included. If volumes must not be committed now, it is a hint.
    """
    if pod.deleting or pod.finished:
        return Wait(pod, Reason.POD_ENDED)
    if view.settings.annotations.other_gates(pod):
        return Wait(pod, Reason.POD_GATED)
    standings = _standings(view, pod, now)
    if isinstance(standings, Demand | Wait | Reject):
        return standings
    mode, limits = _mode_of_pod(view, pod, standings)
    hints: tuple[tuple[str, Claim], ...] = ()
    if mode in COMMITTING:
        hints = tuple((hint.anchor.volume.name, hint.claim.claim) for hint in standings if isinstance(hint, Hinted))
        standings = _uncommitted(standings)
    opened = [standing for standing in standings if isinstance(standing, Open)]
    anchors = tuple(_anchors(standings))
    if len(opened) > MAX_CLAIMS:
        return _too_many(pod, len(opened))
    if not opened:
        begun = [Placement(anchor.begun, anchor.volume) for anchor in anchors if anchor.begun is not None]
        return finish_of(view, pod, begun, now) or _nothing_open(pod, anchors, standings)
    in_use = _in_use(view, pod)
    if in_use is not None:
        return Reject(pod, Reason.VOLUME_IN_USE, (in_use,))
    users = _other_users(view, pod, opened)
    differing = _differing(view, pod, users)
    return Demand(
        pod=pod,
        mode=mode,
        required=tuple(standing.claim for standing in opened if not standing.optional),
        optional=tuple(standing.claim for standing in opened if standing.optional),
        anchors=tuple(anchor.volume for anchor in anchors),
        pins=tuple((standing.claim.key, standing.pin) for standing in opened if standing.pin),
        nodes=_only_nodes(pod, standings),
        hints=hints,
        limits=limits,
        begun=any(standing.begun is not None for standing in standings if isinstance(standing, Anchor)),
        drivers=tuple(_drivers(view, standings)),
        shared=tuple((key, tuple(dict.fromkeys(needs.values()))) for key, needs in differing.items()),
        sharers=tuple(sorted({user for needs in differing.values() for user in needs})),
        users=tuple(_with_volumes(view, users)),
    )


def _other_users(view: View, pod: Pod, opened: Iterable[Open]) -> dict[str, list[Pod]]:
    """Return by claim the other pods behind our gate that use it."""
    snapshot, users = view.snapshot, dict[str, list[Pod]]()
    for key in (standing.claim.key for standing in opened):
        others = (snapshot.pods[user] for user in snapshot.pods_by_claim.get(key, ()) if user != pod.key)
        gated = [other for other in others if _is_behind_our_gate(view, other)]
        if gated:
            users[key] = gated
    return users


def _differing(view: View, pod: Pod, users: Mapping[str, Sequence[Pod]]) -> dict[str, dict[str, UserNeeds]]:
    """Return by claim what these pods need of their nodes, as far as it is not what this pod needs.

    A claim that several of them use gets a volume that lets each of them run, or none.
    """
    if not users:
        return {}
    own, differing = _needs(view, pod), dict[str, dict[str, UserNeeds]]()
    for key, others in users.items():
        needs = {other.key: _needs(view, other) for other in others}
        different = {user: need for user, need in needs.items() if need != own}
        if different:
            differing[key] = different
    return differing


def _with_volumes(view: View, users: Mapping[str, Sequence[Pod]]) -> Iterator[tuple[Pod, tuple[Volume, ...]]]:
    each = {user.key: user for others in users.values() for user in others}
    for key in sorted(each)[:_MAX_USERS]:
        yield each[key], _volumes_of(view, each[key])


def _is_behind_our_gate(view: View, pod: Pod) -> bool:
    return view.settings.annotations.carries_gate(pod) and not (pod.node_name or pod.deleting or pod.finished)


def _needs(view: View, pod: Pod) -> UserNeeds:
    affinities = tuple(volume.node_affinity for volume in _volumes_of(view, pod))
    return UserNeeds(pod.node_selector, pod.node_affinity, pod.tolerations, affinities)


def _volumes_of(view: View, pod: Pod) -> tuple[Volume, ...]:
    waiting = waiting_pod(view.snapshot, view.settings.annotations, pod, view.ledger)
    return () if waiting is None else (*waiting.volumes, *(volume for _, volume in waiting.hints))


def _standings(view: View, pod: Pod, now: datetime) -> Sequence[Standing] | Demand | Wait | Reject:
    """Return where the pod's claims stand; what it needs if its volumes are to be made (mode provision)."""
    standings: list[Standing] = []
    for key, owned in _claims_of(pod):
        standing = standing_of(view, pod, key, now, owned=owned)
        if isinstance(standing, Wait | Reject):
            return standing
        standings.append(standing)
    if any(isinstance(standing, Open) and standing.pin for standing in standings):
        standings = _with_common_place(view, standings)
    if not any(isinstance(standing, Made) for standing in standings):
        return standings
    made = demand_of_made(view, pod, _uncommitted(standings), now)
    return made or [left_to_kubernetes(standing) for standing in standings]


def _with_common_place(view: View, standings: Sequence[Standing]) -> list[Standing]:
    """Return the standings without the volumes set aside, if no node reaches them and those that the pod has.

    A provisioner that is not strict may have made the first volume elsewhere than asked for.
    """
    snapshot, annotations = view.snapshot, view.settings.annotations
    aside = {
        standing.claim.key: snapshot.volumes[standing.pin]
        for standing in standings
        if isinstance(standing, Open) and standing.pin and set_aside_keys(snapshot.volumes[standing.pin], annotations)
    }
    has = [each.volume for each in standings if isinstance(each, Anchor | Made) and each.volume is not None]
    volumes = [*aside.values(), *has]
    if not aside or any(reject_reach(volumes, node) is None for node in snapshot.nodes.values()):
        return list(standings)
    return [replace(each, pin="") if isinstance(each, Open) and each.claim.key in aside else each for each in standings]


def _mode_of_pod(view: View, pod: Pod, standings: Sequence[Standing]) -> tuple[Mode, tuple[str, ...]]:
    """Return the mode, and what of the pod makes it a hint, in words."""
    opened = (standing for standing in _uncommitted(standings) if isinstance(standing, Open))
    mode = min((claim.mode for claim in opened), key=_WEAKEST_FIRST.index, default=Mode.OFF)
    if mode not in COMMITTING:
        return mode, ()
    if not may_commit(pod, view.snapshot):
        return Mode.ANNOTATE, ()
    limits = hint_only(view, pod, _left_off(standings))
    return (Mode.ANNOTATE if limits else mode), limits


def _uncommitted(standings: Iterable[Standing]) -> list[Standing]:
    """Return the same without the hints: a hinted claim is one to plan for."""
    return [standing.claim if isinstance(standing, Hinted) else standing for standing in standings]


def _anchors(standings: Iterable[Standing]) -> Iterator[Anchor]:
    for standing in standings:
        if isinstance(standing, Hinted):
            yield standing.anchor
        elif isinstance(standing, Anchor):
            yield standing


def _claims_of(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Yield the keys of the pod's claims, each once, and whether it belongs to an ephemeral volume of the pod."""
    ephemeral = {claim.name for claim in pod.claims if claim.ephemeral}
    for key in pod.claim_keys:
        yield key, key.partition("/")[2] in ephemeral


def _left_off(standings: Iterable[Standing]) -> tuple[Claim, ...]:
    """Return the claims for which kube-scheduler chooses among existing volumes, because no hint of ours exists."""
    return tuple(
        standing.claim
        for standing in standings
        if isinstance(standing, LeftAlone) and standing.reason is Reason.MODE_OFF
    )


def _drivers(view: View, standings: Iterable[Standing]) -> Iterator[tuple[str, str]]:
    """Yield the claims that need no existing volume, and what each counts as until it has one (NodeVolumeLimits)."""
    for standing in standings:
        if isinstance(standing, LeftAlone) or (isinstance(standing, Open) and standing.optional):
            used = used_volume(view.snapshot, standing.claim)
            if used is not None:
                yield standing.claim.key, used[0]


def _in_use(view: View, pod: Pod) -> Rejection | None:
    """Return which ReadWriteOncePod claim a pod on a node uses: this one cannot run beside it (VolumeRestrictions)."""
    snapshot = view.snapshot
    for key in pod.claim_keys:
        claim = snapshot.claims.get(key)
        if claim is None or READ_WRITE_ONCE_POD not in claim.access_modes:
            continue
        for user in snapshot.pods_by_claim.get(key, ()):
            if user != pod.key and snapshot.pods[user].node_name:
                wanted = f"exclusive use of claim {key} ({READ_WRITE_ONCE_POD})"
                return Rejection(Reason.VOLUME_IN_USE, pod.key, wanted, f"in use by pod {user}")
    return None


def _only_nodes(pod: Pod, standings: Iterable[Standing]) -> frozenset[str] | None:
    """A pod assigned to a node by hand, or a claim with a selected node, allows no other node."""
    selected = (standing.node for standing in standings if isinstance(standing, Open | LeftAlone))
    named = {node for node in selected if node} | ({pod.node_name} if pod.node_name else set())
    if not named:
        return None
    return frozenset(named) if len(named) == 1 else frozenset()


def _nothing_open(pod: Pod, anchors: tuple[Anchor, ...], standings: Sequence[Standing]) -> Wait:
    unfinished = [anchor for anchor in anchors if not anchor.bound]
    if unfinished:
        until = min((anchor.until for anchor in unfinished if anchor.until), default=None)
        return Wait(pod, Reason.ALREADY_RESERVED, until)
    left = [standing.reason for standing in standings if isinstance(standing, LeftAlone)]
    return Wait(pod, left[0] if left else Reason.NO_UNBOUND_CLAIM)


def _too_many(pod: Pod, count: int) -> Reject:
    wanted, offered = f"at most {MAX_CLAIMS} unbound claims in a pod", f"{count} claims to reserve volumes for"
    return Reject(pod, Reason.TOO_MANY_CLAIMS, (Rejection(Reason.TOO_MANY_CLAIMS, pod.key, wanted, offered),))
