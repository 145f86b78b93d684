"""The state of the cluster at one revision, with what the rules need to know about the moments before."""

from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from typing import Final

from soak.judge import facts
from soak.judge.facts import (
    GATE,
    MODE,
    annotation,
    claim_keys,
    gates,
    is_ephemeral,
    key_of,
    nominated_node,
    owns,
    reference,
    refers_to,
    reported_unschedulable,
    reserved_for,
    uid,
    volume_name,
)
from soak.judge.history import Change, Object
from soak.judge.placement.room import usable
from soak.judge.writes import Party, Write

LOOK_BACK: Final = 60.0
"""Seconds for which a mode, a gate or a consumer that is gone still explains a write that was decided under it."""


@dataclass(slots=True)
class Consumer:
    """A pod that mounts a claim: its history, also after it is gone. Times are those of changes."""

    key: str
    uid: str
    gated_until: float = -1.0
    """Infinite while it carries our gate."""
    unschedulable: bool = False
    ephemeral: bool = False
    """Whether the claim is a generic ephemeral volume's, and the pod's only if the pod owns it."""
    gone_at: float | None = None


@dataclass(frozen=True, slots=True)
class Author:
    """The writer of something on an object, and when; `party` is None if the audit log does not show it."""

    party: Party | None
    revision: int
    at: float


@dataclass(slots=True)
class Cluster:
    """Apply a change, run the rules, then attribute the change: in between, authors are those of the version before."""

    objects: dict[str, dict[str, Object]] = field(default_factory=lambda: defaultdict(dict))
    nodes_ever: dict[str, Object] = field(default_factory=dict)
    referring: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Claim's key -> the volumes whose claimRef names it."""
    naming: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Volume -> the claims whose spec.volumeName names it."""
    consumers: defaultdict[str, dict[str, Consumer]] = field(default_factory=lambda: defaultdict(dict))
    """Claim's key -> the pods that mount it or did, by uid."""
    references: dict[str, Author] = field(default_factory=dict)
    """Volume -> the writer of the claim in its claimRef."""
    completed: dict[str, Author] = field(default_factory=dict)
    """Volume -> the writer of the uid in a claimRef that had only a name before."""
    reservations: dict[str, Author] = field(default_factory=dict)
    """Volume -> the writer of the reservation on it."""
    holds: dict[str, Author] = field(default_factory=dict)
    """Volume -> the writer of the hold on it."""
    unheld_by_others: set[str] = field(default_factory=set)
    """Volumes whose hold another party removed or changed, and not the claimRef that belongs to it."""
    phases: dict[str, Author] = field(default_factory=dict)
    """Volume -> the writer of its phase."""
    released: dict[str, Author] = field(default_factory=dict)
    """Pod's uid -> the writer that removed its last gate, or that created it without one."""
    placed: dict[str, Author] = field(default_factory=dict)
    """Pod's uid -> the writer that gave it its node."""
    left: dict[str, tuple[float, Object]] = field(default_factory=dict)
    """Pod's uid -> when it left its node, because it was deleted or finished, and the pod as it was there."""
    departed: dict[str, tuple[float, Object, tuple[str, ...]]] = field(default_factory=dict)
    """Pod's uid -> when it was deleted while it was committed without a node, the pod, and the nodes it could go to."""
    nominated: dict[str, Author] = field(default_factory=dict)
    """Pod's uid -> the writer that nominated it for a node last."""
    nodes_since: dict[str, float] = field(default_factory=dict)
    """Node -> since when there is a node of that name."""
    usable_until: dict[str, float] = field(default_factory=dict)
    """Node -> when it last ceased to take pods."""
    unreferenced_at: dict[tuple[str, str], float] = field(default_factory=dict)
    """Volume and claim uid -> when the volume ceased to refer to the claim."""
    bound: dict[str, Author] = field(default_factory=dict)
    """Claim's uid -> the writer of its volumeName."""
    selected: dict[str, Author] = field(default_factory=dict)
    """Claim's key -> who selected the node for which its volume is to be made."""
    claims_since: dict[str, float] = field(default_factory=dict)
    """Claim's key -> since when there is a claim of that name."""
    claims_gone_at: dict[str, float] = field(default_factory=dict)
    """Claim's key -> when the last one of that name was deleted."""
    released_at: dict[tuple[str, str], float] = field(default_factory=dict)
    """Claim's key and uid -> when a volume was last held for it no more."""
    modes: defaultdict[str, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))
    """Class -> its modes, each with its start time."""
    holders: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Lease -> its holder, and when it last changed."""

    @property
    def volumes(self) -> dict[str, Object]:
        return self.objects["PersistentVolume"]

    @property
    def claims(self) -> dict[str, Object]:
        return self.objects["PersistentVolumeClaim"]

    @property
    def pods(self) -> dict[str, Object]:
        return self.objects["Pod"]

    @property
    def nodes(self) -> dict[str, Object]:
        return self.objects["Node"]

    def apply(self, change: Change) -> None:
        """Apply the change."""
        objects = self.objects[change.kind]
        if change.after is None:
            objects.pop(change.key, None)
        else:
            objects[change.key] = change.after
        if change.kind == "PersistentVolume":
            self._volume(change)
        elif change.kind == "PersistentVolumeClaim":
            self._refile(self.naming, volume_name(change.before), volume_name(change.after), change.key)
            if change.after is None:
                self.claims_gone_at[change.key] = change.at
                self.claims_since.pop(change.key, None)
            else:
                self.claims_since.setdefault(change.key, change.at)
        elif change.kind == "Pod":
            self._pod(change)
        elif change.kind == "Node":
            self._node(change)
        elif change.kind == "StorageClass" and change.after is not None:
            self.modes[change.key].append((change.at, annotation(change.after, MODE) or ""))
        elif change.kind == "Lease" and change.after is not None:
            self.holders[change.key] = (change.after["spec"].get("holderIdentity") or "", change.at)

    def attribute(self, change: Change, write: Write | None) -> None:
        """Record the author of the change."""
        author = Author(None if write is None else write.party, change.revision, change.at)
        if change.kind == "Pod" and change.after is not None:
            self._attribute_pod(change.before, change.after, author)
        if change.kind == "PersistentVolumeClaim":
            self._attribute_claim(change, author)
        if change.kind != "PersistentVolume":
            return
        before, after = reference(change.before), reference(change.after)
        if after is None:
            self.references.pop(change.key, None)
        elif before is None or before[0] != after[0]:
            self.references[change.key] = author
        if before is None or after is None or before[0] != after[0]:
            self.completed.pop(change.key, None)
        elif after[1] and not before[1]:
            self.completed[change.key] = author
        if reserved_for(change.after) != reserved_for(change.before):
            self.reservations[change.key] = author
        self._attribute_hold(change, author)
        if (change.after or {}).get("status") != (change.before or {}).get("status"):
            self.phases[change.key] = author

    def _attribute_claim(self, change: Change, author: Author) -> None:
        if volume_name(change.after) != volume_name(change.before):
            self.bound[uid(change.object)] = author
        node = annotation(change.after, facts.SELECTED)
        if node is None:
            self.selected.pop(change.key, None)
        elif node != annotation(change.before, facts.SELECTED):
            self.selected[change.key] = author

    def _attribute_hold(self, change: Change, author: Author) -> None:
        before = facts.held_for(change.before)
        if before != facts.held_for(change.after):
            self.holds[change.key] = author
            if before and author.party is not Party.CONTROLLER:
                self.unheld_by_others.add(change.key)
        if reference(change.after) is None:
            self.unheld_by_others.discard(change.key)

    def _attribute_pod(self, before: Object | None, after: Object, author: Author) -> None:
        if not gates(after) and (before is None or gates(before)):
            self.released[uid(after)] = author
        if after["spec"].get("nodeName") and not (before or {}).get("spec", {}).get("nodeName"):
            self.placed[uid(after)] = author
        if nominated_node(after) and nominated_node(after) != nominated_node(before):
            self.nominated[uid(after)] = author

    def recent_modes(self, class_name: str, now: float) -> set[str]:
        """Return the modes the class had in the last LOOK_BACK seconds."""
        known = self.modes.get(class_name) or [(0.0, "")]
        ends = [*(since for since, _ in known[1:]), now + 1]
        return {mode for (_, mode), end in zip(known, ends, strict=True) if end >= now - LOOK_BACK}

    def recent_consumers(self, claim_key: str, now: float) -> list[Consumer]:
        """Return the pods that may use the claim, or could in the last LOOK_BACK seconds."""
        claim = self.claims.get(claim_key)
        return [
            each
            for each in self.consumers[claim_key].values()
            if each.gone_at is None or each.gone_at >= now - LOOK_BACK
            if not each.ephemeral or claim is None or owns(each.uid, claim)
        ]

    def volumes_of(self, claim: Object) -> list[Object]:
        """Return the volumes that are held for a claim: bound, committed or reserved."""
        key = key_of(claim)
        bound = self.volumes.get(volume_name(claim))
        if bound is not None:
            return [bound]
        committed = [self.volumes[each] for each in self.referring[key] if refers_to(self.volumes[each], claim)]
        wanted = (key, uid(claim))
        return committed or [volume for volume in self.volumes.values() if reserved_for(volume) == wanted]

    def _volume(self, change: Change) -> None:
        before, after = reference(change.before), reference(change.after)
        self._refile(self.referring, before[0] if before else "", after[0] if after else "", change.key)
        if before is not None and before != after:
            self.unreferenced_at[change.key, before[1]] = change.at
            holder = self.claims.get(before[0])
            if holder is not None:
                self.released_at[before[0], uid(holder)] = change.at
        reserved = reserved_for(change.before)
        if reserved is not None and reserved != reserved_for(change.after):
            self.released_at[reserved] = change.at

    def _node(self, change: Change) -> None:
        if change.after is None:
            self.nodes_since.pop(change.key, None)
        else:
            self.nodes_ever[change.key] = change.after
            self.nodes_since.setdefault(change.key, change.at)
        if usable(change.before) and not usable(change.after):
            self.usable_until[change.key] = change.at

    def _pod(self, change: Change) -> None:
        before = change.before
        was_there = before is not None and bool(before["spec"].get("nodeName")) and not facts.finished(before)
        if before is not None and was_there and (change.after is None or facts.finished(change.after)):
            self.left[uid(before)] = change.at, before
        for key in claim_keys(change.object):
            mounting = self.consumers[key]
            consumer = mounting.setdefault(uid(change.object), Consumer(change.key, uid(change.object)))
            if GATE in gates(change.after):
                consumer.gated_until = inf
            elif GATE in gates(change.before):
                consumer.gated_until = change.at
            consumer.ephemeral = is_ephemeral(change.object, key)
            consumer.unschedulable = consumer.unschedulable or reported_unschedulable(change.object)
            consumer.gone_at = change.at if change.after is None else None

    @staticmethod
    def _refile(index: defaultdict[str, set[str]], before: str, after: str, name: str) -> None:
        if before and before != after:
            index[before].discard(name)
        if after:
            index[after].add(name)
