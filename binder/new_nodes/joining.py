"""Plans pods for which only nodes are missing against nodes that an autoscaler would add, where the classes allow it.

Tried with Karpenter 1.14: an unbound claim has no topology for it, so it nominates a node in any zone; and it passes
over pods with a gate. A bound claim it follows. So a volume is committed for a node that does not exist yet: only if an
autoscaler would add one that reaches the volume and fits the pod, by the rules of kube-scheduler and by those of the
autoscaler where they differ, and for few pods at a time (binder.new_nodes.ahead).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Final

from binder.assignment.volume_policy import reject_health
from binder.matching.matching import class_of
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import COMMITTING, Decision, Mode, Provision, Reject, Reserve, Wait
from binder.model.new_nodes import NewNodes, Place
from binder.model.view import View
from binder.model.waiting_pod import all_waiting, with_ledger
from binder.new_nodes.ahead import PodAhead, places_of, pods_ahead
from binder.new_nodes.bringing import Bringing, brings, without_disks
from binder.new_nodes.letting_go import reject_letting_go
from binder.new_nodes.templates import Templates, is_new, templates
from binder.planning.claim_standing import mode_of
from binder.planning.plan import Caches, holds_of, plan
from binder.planning.pod_claims import open_claims
from binder.rebalance.integer_program import Solve, solve
from kube.objects.constraints import DO_NOT_SCHEDULE
from kube.objects.model import Pod, Volume
from kube.rules.topology import is_narrower_than_zone, is_on_one_node

_NODES_MISSING: Final = frozenset({Reason.NO_NODE_FITS, Reason.NO_JOINT_ASSIGNMENT, Reason.INSUFFICIENT_STORAGE})
"""Rejections that another node could change."""
_DECISIVE: Final = frozenset({Reason.ROOM_WITHOUT_DISK, Reason.WAITING_FOR_NEW_NODE})
"""Obstacles that say more than what was found about existing nodes."""
_MAX_EVIDENCE: Final = 20
_MAX_OF_NEW: Final = 8
"""Reasons about new nodes that are reported before those about existing ones."""


def with_new_nodes(
    view: View, decisions: tuple[Decision, ...], now: datetime, solve: Solve = solve
) -> tuple[Decision, ...]:
    """Return the decisions of a pass with those of pods that get volumes for a node that does not exist yet."""
    new_nodes = view.new_nodes
    rejected = [decision for decision in decisions if isinstance(decision, Reject) and _may_join(view, decision)]
    if new_nodes is None or not rejected:
        return decisions
    held = chain.from_iterable(map(holds_of, decisions))
    view = replace(view, ledger=view.ledger.with_holds(held))
    joined = _Joining(view, new_nodes, now, solve, Bringing(view, now, solve)).decide(rejected)
    return tuple(joined.get(decision.pod.key, decision) for decision in decisions)


def _may_join(view: View, rejected: Reject) -> bool:
    """Whether only nodes are missing, and every class of the pod's open claims allows new ones."""
    if rejected.reason not in _NODES_MISSING or rejected.begun or rejected.pod.node_name:
        return False
    classes = [view.snapshot.classes.get(class_of(claim)) for claim in open_claims(rejected.pod, view.snapshot)]
    keys = view.settings.annotations
    if rejected.reason is Reason.INSUFFICIENT_STORAGE:
        return all(each is not None and brings(each, view.snapshot, keys) for each in classes)
    return bool(classes) and all(each is not None and keys.joins_new_nodes(each) for each in classes)


@dataclass(frozen=True, slots=True)
class _Joining:
    """One pass over the pods that were rejected. `view` has what the same pass reserved before."""

    view: View
    new_nodes: NewNodes
    now: datetime
    solve: Solve
    bringing: Bringing

    def decide(self, rejected: Sequence[Reject]) -> dict[str, Decision]:
        by_key = {each.pod.key: each for each in rejected if _min_domains(each.pod) is None}
        decided: dict[str, Decision] = {
            each.pod.key: _with_evidence(each, [reason])
            for each in rejected
            if (reason := _min_domains(each.pod)) is not None
        }
        pods = [each.pod for each in by_key.values()]
        added = templates(self.view.snapshot, self.new_nodes, pods)
        extended = _extended(without_disks(self.view), added)
        nodes = {node.name: node for node in added.nodes}
        turns = _Turns(self._ahead(), self.new_nodes.ahead, self.now)
        planned = plan(extended, pods, self.now, Caches(), self.solve) if nodes else ()
        for decision in sorted(planned, key=_urgency):
            before = by_key[decision.pod.key]
            if isinstance(decision, Provision) and _is_only_made(decision) and self._obstacle(decision.pod) is None:
                self.bringing.take_turn(decision.pod, open_claims(decision.pod, self.view.snapshot))
                decided[decision.pod.key] = Wait(decision.pod, Reason.DYNAMIC_CLASS, node=decision.node)
            elif not isinstance(decision, Reserve):
                decided[decision.pod.key] = self._rejection(before, decision, added)
            elif decision.mode not in COMMITTING or not self._is_healthy(decision):
                continue
            elif is_new(decision.node):
                reserve = replace(decision, mode=Mode.PREBIND, new_node=nodes[decision.node])
                decided[decision.pod.key] = turns.take(reserve)
            else:
                decided[decision.pod.key] = decision
        if not nodes:
            decided |= {key: self._rejection(each, None, added) for key, each in by_key.items()}
        return decided

    def _ahead(self) -> list[PodAhead]:
        """Return the pods that wait for a new node, those included for which that is being written."""
        view, annotations = self.view, self.view.settings.annotations
        known = view.waiting if view.waiting is not None else all_waiting(view.snapshot, annotations)
        waiting = with_ledger(known, view.ledger, view.snapshot, annotations)
        held = {hold.pod_key for hold in view.ledger.holds.values() if is_new(hold.node)}
        begun = [
            replace(each, ahead=self.now) if each.ahead is None and key in held else each
            for key, each in waiting.items()
        ]
        return list(pods_ahead(begun, view.snapshot.classes, annotations))

    def _is_healthy(self, decision: Reserve) -> bool:
        """Whether the volumes are, as the existing nodes report: a new one reports nothing."""
        return all(reject_health(self.view, volume, self.now) is None for volume in decision.volumes)

    def _rejection(self, before: Reject, after: Decision | None, added: Templates) -> Reject:
        """Return why the pod was rejected before, with why no new node helps."""
        about = [each for each in after.rejections if is_new(each.subject)] if isinstance(after, Reject) else []
        obstacle = self._obstacle(before.pod)
        if obstacle is not None and obstacle.reason in _DECISIVE:
            return Reject(before.pod, obstacle.reason, (obstacle, *before.rejections)[:_MAX_EVIDENCE])
        return _with_evidence(before, [*([obstacle] if obstacle is not None else []), *added.faults, *about])

    def _obstacle(self, pod: Pod) -> Rejection | None:
        """Return why no new node helps, whatever it is like: a disk of one node, or a rule of mode provision."""
        snapshot, settings = self.view.snapshot, self.view.settings
        claims = open_claims(pod, snapshot)
        if all(mode_of(snapshot.classes[class_of(claim)], settings) is Mode.PROVISION for claim in claims):
            if any(brings(snapshot.classes[class_of(claim)], snapshot, settings.annotations) for claim in claims):
                return self.bringing.reject(pod, claims)
            return reject_letting_go(pod, claims, snapshot, settings.annotations)
        for claim in claims:
            volumes = list(self.view.index.candidates(claim))
            if volumes and all(map(_is_local, volumes)):
                wanted = "a volume that is accessible from a node still to be added"
                return Rejection(Reason.ROOM_WITHOUT_DISK, volumes[0].name, wanted, "a volume of one node only")
        return None


def _extended(view: View, added: Templates) -> View:
    """Return the view with the new nodes beside the existing ones.

    Existing ones count for what pods demand of each other. Karpenter counts the zones of its pools as well, which
    kube-scheduler does only when they have a node: with all new nodes at once the stricter of both is demanded.
    """
    snapshot = view.snapshot
    nodes, csi_nodes = snapshot.nodes.mutate(), snapshot.csi_nodes.mutate()
    for node in added.nodes:
        nodes[node.name] = node
    for csi_node in added.csi_nodes:
        csi_nodes[csi_node.name] = csi_node
    extended = replace(snapshot, nodes=nodes.finish(), csi_nodes=csi_nodes.finish())
    return replace(view, snapshot=extended, node_storage=type(view.node_storage)())


def _is_local(volume: Volume) -> bool:
    return is_on_one_node(volume) or is_narrower_than_zone(volume.node_affinity)


def _is_only_made(decision: Provision) -> bool:
    """Whether all that the pod lacks is to be made on a new node; no existing volume can be set aside for one."""
    return is_new(decision.node) and not decision.placements


def _min_domains(pod: Pod) -> Rejection | None:
    """Return the spread that an autoscaler counts otherwise: fewer domains than it demands make kube-scheduler take the
    lowest count for 0, and for Karpenter every zone of a pool is a domain already.
    """
    for each in pod.constraints.spread if pod.constraints is not None else ():
        if each.when_unsatisfiable == DO_NOT_SCHEDULE and each.min_domains > 1:
            return Rejection(
                Reason.TOPOLOGY_SPREAD,
                pod.key,
                "a spread that an autoscaler counts as kube-scheduler does",
                f"minDomains {each.min_domains} over {each.topology_key}",
            )
    return None


def _with_evidence(before: Reject, about: Sequence[Rejection]) -> Reject:
    rejections = dict.fromkeys((*about[:_MAX_OF_NEW], *before.rejections))
    return replace(before, rejections=tuple(rejections)[:_MAX_EVIDENCE])


def _urgency(decision: Decision) -> tuple[int, float, str]:
    pod = decision.pod
    return -pod.priority, pod.created.timestamp() if pod.created else float("inf"), pod.key


class _Turns:
    """Who may be committed ahead of a node in this pass."""

    def __init__(self, ahead: Sequence[PodAhead], limits: Mapping[Place, int], now: datetime) -> None:
        self._limits, self._now = limits, now
        self._waiting: dict[Place, list[PodAhead]] = {}
        for each in ahead:
            for place in each.places:
                self._waiting.setdefault(place, []).append(each)
        self._taken: Counter[Place] = Counter()

    def take(self, decision: Reserve) -> Reserve | Reject:
        """Return the decision if it is the pod's turn, else for which pods it waits."""
        places = places_of(decision.volumes)
        others = [rejection for place in sorted(places) for rejection in self._others(place)]
        if others:
            return Reject(decision.pod, Reason.WAITING_FOR_NEW_NODE, tuple(others[:_MAX_EVIDENCE]))
        self._taken.update(places)
        return decision

    def _others(self, place: Place) -> Iterator[Rejection]:
        waiting, most = self._waiting.get(place, []), self._limits.get(place, 1)
        late = [each for each in waiting if each.due <= self._now]
        if not late and len(waiting) + self._taken[place] < most:
            return
        name, zone = place
        wanted = f"the node for the pods whose volumes of class {name} were committed ahead of it"
        for each in late or waiting:
            offered = f"no node since {each.since:%H:%M:%S} UTC" + (", longer than it may take" if late else "")
            yield Rejection(Reason.WAITING_FOR_NEW_NODE, each.pod.key, f"{wanted}{_in(zone)}", offered)
        if not waiting:
            yield Rejection(Reason.WAITING_FOR_NEW_NODE, f"class {name}{_in(zone)}", wanted, "other pods of this pass")


def _in(zone: str) -> str:
    return f" in zone {zone}" if zone else ""
