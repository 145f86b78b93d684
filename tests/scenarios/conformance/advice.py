"""What `why` says of a puzzle, and what it says to do about it, done in memory: one step after another."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from binder.matching.rejection import Reason
from binder.reservation.contract import DEFAULT_PREFIX
from tests.scenarios.conformance.puzzles import COMPLETED, NODES, RANK, SELECTED, ZONES, Puzzle, csi_nodes, nodes
from tests.scenarios.environment import documents
from tests.scenarios.environment.documents import HOSTNAME, ZONE, Document
from why.explain.answering import report_on
from why.explain.targets import Target
from why.facts.facts import Facts, Source
from why.reading.gathering import Gathering
from why.report.report import Item

LOOKED_AT: Final = datetime(2026, 11, 22, 12, tzinfo=UTC)
MAX_STEPS: Final = 40
CLAIM, VOLUME, CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"

UNSEEN_BY_THE_SCHEDULER: Final = frozenset(
    {Reason.PROVISIONER_MISSING, Reason.DRIVER_NOT_ON_NODE, Reason.SELECTOR_ON_DYNAMIC_CLASS}
)
"""Causes that come after a node was chosen: kube-scheduler leaves the volume to its provisioner."""


@dataclass(frozen=True)
class Step:
    """A puzzle as it was, and what `why` said of its pod."""

    puzzle: Puzzle
    item: Item

    @property
    def is_over(self) -> bool:
        return not self.item.problem and self.item.code is Reason.PROGRESSING

    @property
    def has_nodes(self) -> bool | None:
        """Whether kube-scheduler should find nodes for the pod; None where the cause is none of its business."""
        return None if self.item.code in UNSEEN_BY_THE_SCHEDULER else self.is_over


def choosy(puzzle: Puzzle, random: Random) -> Puzzle:
    """Let the pod wish for more than storage: for some nodes only, or for more than any node has."""
    spec = _pod(puzzle)["spec"]
    if random.random() < 0.4:
        wishes = ({ZONE: ZONES[0]}, {ZONE: ZONES[1]}, {RANK: "3"}, {HOSTNAME: NODES[6]}, {"disk": "ssd"})
        spec["nodeSelector"] = random.choice(wishes)
    if random.random() < 0.05:
        spec["containers"][0]["resources"]["requests"]["cpu"] = "65"
    return puzzle


def steps(puzzle: Puzzle, namespace: str) -> list[Step]:
    """Return the way from the puzzle to one in which `why` finds nothing wrong, by doing what it says."""
    made: list[Step] = []
    while len(made) < MAX_STEPS:
        step = Step(puzzle, explained(puzzle, namespace))
        made.append(step)
        if step.is_over:
            return made
        puzzle = deepcopy(puzzle)
        _MENDS[step.item.code](_Hand(puzzle, namespace, step.item))
    raise AssertionError(f"{puzzle.name} is never right: {[(str(each.item.code), each.item.message) for each in made]}")


def explained(puzzle: Puzzle, namespace: str) -> Item:
    """Return what `why` says of the puzzle's pod, once kube-scheduler has looked at it."""
    report = report_on(facts_of(puzzle), (Target("Pod", puzzle.name, namespace),), namespace)
    (item,) = report.items
    return item


def facts_of(puzzle: Puzzle) -> Facts:
    gathering = Gathering(DEFAULT_PREFIX)
    for each in (*nodes(), *csi_nodes([puzzle]), *puzzle.first, *puzzle.pods, *_owned(puzzle)):
        gathering.take(json.dumps(_as_read(puzzle, each)).encode(), each["apiVersion"], each["kind"], puzzle.name)
    assert not gathering.faults
    return gathering.facts(LOOKED_AT, set(Source), {}, everywhere=True)


def _pod(puzzle: Puzzle) -> Document:
    return next(each for each in puzzle.pods if each["metadata"]["name"] == puzzle.name)


def _owned(puzzle: Puzzle) -> list[Document]:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": puzzle.name,
        "uid": f"uid-Pod-{puzzle.name}",
        "controller": True,
    }
    return [each | {"metadata": each["metadata"] | {"ownerReferences": [owner]}} for each in puzzle.owned]


def _as_read(puzzle: Puzzle, made: Document) -> Document:
    """Return the object as the API server would: with its uid, its age and the status that the puzzle gives it."""
    kind, name = made["kind"], made["metadata"]["name"]
    read = deepcopy(made)
    read["metadata"] |= {"uid": f"uid-{kind}-{name}", "creationTimestamp": "2026-11-22T11:59:00Z"}
    if kind in {CLAIM, VOLUME}:
        read["status"] = {"phase": puzzle.phases.get((kind, name), "Pending")}
    if kind == CLAIM and name in puzzle.gone:
        read["metadata"]["deletionTimestamp"] = "2026-11-22T11:59:30Z"
    if kind == "Pod" and name == puzzle.name:
        read["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    return read


class _Hand:
    """Does what the answer says, as a person would."""

    def __init__(self, puzzle: Puzzle, namespace: str, item: Item) -> None:
        self.puzzle, self.namespace, self.item = puzzle, namespace, item

    # Finding things

    def name_of(self, kind: str) -> str:
        """Return the last object of this kind in the chain, without its namespace."""
        return [link.name for link in self.item.causes if link.kind == kind][-1].rpartition("/")[2]

    def find(self, kind: str, name: str) -> Document | None:
        every = (*self.puzzle.first, *self.puzzle.owned)
        return next((each for each in every if (each["kind"], each["metadata"]["name"]) == (kind, name)), None)

    @property
    def claim(self) -> Document:
        claim = self.find(CLAIM, self.name_of(CLAIM))
        assert claim is not None
        return claim

    def volumes(self) -> list[Document]:
        names = {link.name for link in self.item.causes if link.kind == VOLUME}
        return [each for each in self.puzzle.first if each["kind"] == VOLUME and each["metadata"]["name"] in names]

    @property
    def storage_class(self) -> Document:
        storage_class = self.find(CLASS, self.claim["spec"]["storageClassName"])
        assert storage_class is not None
        return storage_class

    # Doing things

    def remove(self, kind: str, name: str) -> None:
        for some in (self.puzzle.first, self.puzzle.owned):
            some[:] = [each for each in some if (each["kind"], each["metadata"]["name"]) != (kind, name)]
        self.puzzle.phases.pop((kind, name), None)

    def add_volume(self, claim: Document, name: str = "") -> str:
        """Add an Available volume that any node reaches and that suits the claim."""
        name = name or f"{claim['metadata']['name']}-new{len(self.puzzle.first)}"
        spec = claim["spec"]
        labels = spec.get("selector", {}).get("matchLabels", {})
        made = documents.volume(
            name,
            spec["storageClassName"],
            size=spec["resources"]["requests"]["storage"],
            access_modes=spec["accessModes"],
            labels=labels,
            driver=f"new.{self.puzzle.driver}",
        )
        self.puzzle.first.append(made)
        self.puzzle.phases[VOLUME, name] = "Available"
        return name

    def bind(self, claim: Document, name: str) -> None:
        """What the PV controller does."""
        volume = self.find(VOLUME, name)
        assert volume is not None
        key = claim["metadata"]["name"]
        volume["spec"]["claimRef"] = {"namespace": self.namespace, "name": key}
        claim["spec"]["volumeName"] = name
        claim["metadata"].setdefault("annotations", {})[COMPLETED] = "yes"
        self.puzzle.phases |= {(VOLUME, name): "Bound", (CLAIM, key): "Bound"}

    def fresh(self, claim: Document) -> None:
        """Delete the claim and create it, asking for no volume by name."""
        claim["spec"].pop("volumeName", None)
        claim["metadata"].pop("annotations", None)
        name = claim["metadata"]["name"]
        self.puzzle.phases.pop((CLAIM, name), None)
        if name in self.puzzle.gone:
            self.puzzle.gone.remove(name)


def _create_claim(hand: _Hand) -> None:
    name = hand.name_of(CLAIM)
    owned = any("ephemeral" in each and f"{hand.puzzle.name}-{each['name']}" == name for each in _volumes_of_pod(hand))
    made = documents.claim(hand.namespace, name, documents.claim_spec(f"{hand.puzzle.name}-found", "1Gi"))
    (hand.puzzle.owned if owned else hand.puzzle.first).append(made)


def _volumes_of_pod(hand: _Hand) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = _pod(hand.puzzle)["spec"]["volumes"]
    return volumes


def _finish_deletion(hand: _Hand) -> None:
    name = hand.name_of(CLAIM)
    hand.remove(CLAIM, name)
    hand.puzzle.gone.remove(name)


def _restore(hand: _Hand) -> None:
    claim = hand.claim
    name = claim["spec"].get("volumeName") or f"{claim['metadata']['name']}-restored"
    if hand.find(VOLUME, name) is None:
        hand.add_volume(claim, name)
    hand.bind(claim, name)


def _create_class(hand: _Hand) -> None:
    hand.puzzle.first.append(documents.storage_class(hand.name_of(CLASS), None))


def _add_volume(hand: _Hand) -> None:
    if "more than once" in hand.item.message:
        _name_claim_once(hand)
    else:
        hand.add_volume(hand.claim)


def _name_claim_once(hand: _Hand) -> None:
    volumes = _volumes_of_pod(hand)
    volumes[:] = [each for each in volumes if each["name"] != "again"]


def _add_requested_volume(hand: _Hand) -> None:
    hand.add_volume(hand.claim, hand.name_of(VOLUME))


def _create_claim_anew(hand: _Hand) -> None:
    hand.fresh(hand.claim)


def _release(hand: _Hand) -> None:
    (volume,) = hand.volumes()
    if "patch pv" not in hand.item.next[0]:
        hand.fresh(hand.claim)
        return
    volume["spec"].pop("claimRef", None)
    hand.puzzle.phases[VOLUME, volume["metadata"]["name"]] = "Available"


def _wait_for_the_pv_controller(hand: _Hand) -> None:
    """It completes the bind, or chooses a volume: the one that the answer found, or a new one of the same kind."""
    claim = hand.claim
    hand.bind(claim, claim["spec"].get("volumeName") or hand.add_volume(claim))


def _install_driver(hand: _Hand) -> None:
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": hand.puzzle.driver}}
    if hand.find("CSIDriver", hand.puzzle.driver) is None:
        hand.puzzle.first.append(kind | {"spec": {"attachRequired": True, "storageCapacity": False}})
    for name in NODES:
        hand.puzzle.limits.setdefault(name, None)


def _choose_again(hand: _Hand) -> None:
    for each in (*hand.puzzle.first, *hand.puzzle.owned):
        if each["kind"] == CLAIM:
            each["metadata"].get("annotations", {}).pop(SELECTED, None)


def _allow_everywhere(hand: _Hand) -> None:
    hand.storage_class.pop("allowedTopologies")


def _add_room(hand: _Hand) -> None:
    claim = hand.claim
    hand.puzzle.first.append(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {
                "name": f"{claim['metadata']['name']}-room{len(hand.puzzle.first)}",
                "namespace": hand.namespace,
            },
            "storageClassName": claim["spec"]["storageClassName"],
            "nodeTopology": {},
            "capacity": "99Gi",
        }
    )


def _move_volumes(hand: _Hand) -> None:
    """Let the pod go to where the volumes are, or restore them where every node reaches them, as the answer says.

    A claim without a volume gets one there.
    """
    if "nodeSelector" in hand.item.advice[0] or "describe node" in hand.item.next[0]:
        _wish_for_less(hand)
        return
    if "/spec/claimRef" in hand.item.next[0] or "remove its claimRef" in hand.item.advice[0]:
        freed = hand.find(VOLUME, hand.item.next[0].split()[3])
        assert freed is not None
        freed["spec"].pop("claimRef")
        return
    volumes = hand.volumes()
    for volume in volumes:
        volume["spec"].pop("nodeAffinity", None)
        volume["metadata"]["labels"] = {}
    if not volumes:
        hand.add_volume(hand.claim)


def _make_room_to_attach(hand: _Hand) -> None:
    hand.puzzle.limits.update(dict.fromkeys(hand.puzzle.limits, None))


def _drop_selector(hand: _Hand) -> None:
    hand.claim["spec"].pop("selector")


def _wish_for_less(hand: _Hand) -> None:
    spec = _pod(hand.puzzle)["spec"]
    spec.pop("nodeSelector", None)
    spec["containers"][0]["resources"]["requests"]["cpu"] = "10m"


_MENDS: Final[dict[Reason, Callable[[_Hand], None]]] = {
    Reason.CLAIM_NOT_FOUND: _create_claim,
    Reason.CLAIM_DELETING: _finish_deletion,
    Reason.CLAIM_LOST: _restore,
    Reason.CLASS_NOT_FOUND: _create_class,
    Reason.NO_VOLUME_FITS: _add_volume,
    Reason.REQUESTED_VOLUME_MISSING: _add_requested_volume,
    Reason.REQUESTED_VOLUME_MISMATCH: _create_claim_anew,
    Reason.VOLUME_STILL_CLAIMED: _release,
    Reason.PREBOUND_INCOMPLETE: _wait_for_the_pv_controller,
    Reason.IMMEDIATE_CLAIM: _wait_for_the_pv_controller,
    Reason.PROVISIONER_MISSING: _install_driver,
    Reason.DRIVER_NOT_ON_NODE: _install_driver,
    Reason.SELECTED_NODE_STALE: _choose_again,
    Reason.TOPOLOGY_NOT_ALLOWED: _allow_everywhere,
    Reason.INSUFFICIENT_STORAGE: _add_room,
    Reason.TOPOLOGY_CONFLICT: _move_volumes,
    Reason.VOLUMES_IN_DIFFERENT_ZONES: _move_volumes,
    Reason.ATTACH_LIMIT_REACHED: _make_room_to_attach,
    Reason.SELECTOR_ON_DYNAMIC_CLASS: _drop_selector,
    Reason.NO_NODE_FITS: _wish_for_less,
}
