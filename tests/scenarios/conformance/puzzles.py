"""Small random worlds of storage, each with one pod to be scheduled: a seed always produces the same one.

Puzzles share the nodes and nothing else: classes, drivers, volumes and claims are named after the puzzle. Sizes differ
within a puzzle, and no claim is named by two volumes, because there the choice of Kubernetes is random.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from binder.reservation.contract import DEFAULT_PREFIX
from tests.scenarios.environment import documents
from tests.scenarios.environment.documents import DELAYED, HOSTNAME, IMMEDIATE, NO_PROVISIONER, ZONE, Document

SELECTED: Final = "volume.kubernetes.io/selected-node"
COMPLETED: Final = "pv.kubernetes.io/bind-completed"
RANK: Final = "rank"
ZONES: Final = ("zone-a", "zone-b")
NODES: Final = tuple(f"node-{number}" for number in range(1, 9))
_STORAGE: Final = "storage.k8s.io/v1"
_MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")


@dataclass
class Puzzle:
    """What to create: `first` in any order, then the pods, then `owned` claims with the waiting pod as their owner.

    `phases` are by kind and name; `gone` are claims to be deleted, which a finalizer keeps; `limits` are by node.
    `promised` are volumes that are reserved for a claim of the pod.
    """

    name: str
    scheduler: str
    first: list[Document] = field(default_factory=list)
    pods: list[Document] = field(default_factory=list)
    owned: list[Document] = field(default_factory=list)
    phases: dict[tuple[str, str], str] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    promised: dict[str, str] = field(default_factory=dict)
    limits: dict[str, int | None] = field(default_factory=dict)

    @property
    def driver(self) -> str:
        return f"{self.name}.csi.example"


def nodes() -> list[Document]:
    """Nodes in two zones, some in none, with a number by which volumes distinguish them."""
    made = []
    for number, name in enumerate(NODES):
        labels = {HOSTNAME: name, RANK: str(number)}
        if number < 6:
            labels[ZONE] = ZONES[number % 2]
        offers = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
        metadata = {"name": name, "labels": labels}
        made.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": offers}})
    return made


def csi_nodes(puzzles: list[Puzzle]) -> list[Document]:
    """What the puzzles' drivers can attach on each node."""
    made = []
    for name in NODES:
        drivers = [
            {"name": puzzle.driver, "nodeID": name, "topologyKeys": [], **_count(puzzle.limits[name])}
            for puzzle in puzzles
            if name in puzzle.limits
        ]
        made.append(
            {"apiVersion": _STORAGE, "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": drivers}}
        )
    return made


def puzzle(number: int, seed: int, namespace: str, scheduler: str) -> Puzzle:
    """Return the puzzle of this number: the same for the same seed."""
    return _Maker(Puzzle(f"p{number}", scheduler), Random(f"{seed}/{number}"), namespace).make()


def held_for(claim: str, uid: str, *, expired: bool = False) -> dict[str, str]:
    """Return the annotations of a volume that is reserved, as docs/reservation-contract.md has them."""
    reservation = {
        "reserved-for": claim,
        "reserved-for-uid": uid,
        "bound-at": "2026-01-01T00:00:00Z",
        "expires-at": "2026-01-02T00:00:00Z" if expired else "2096-01-01T00:00:00Z",
        "reserved-by": "somebody/1",
    }
    return {DEFAULT_PREFIX + key: value for key, value in reservation.items()}


def _count(limit: int | None) -> Document:
    return {} if limit is None else {"allocatable": {"count": limit}}


class _Maker:
    def __init__(self, puzzle: Puzzle, random: Random, namespace: str) -> None:
        self._made, self._random, self._namespace = puzzle, random, namespace
        self._sizes = random.sample(range(1, 40), 24)

    def make(self) -> Puzzle:
        for node in NODES:
            if self._chance(0.8):
                self._made.limits[node] = self._random.choice((None, None, 1, 2, 3))
        self._classes()
        claims = [self._claim(f"{self._made.name}-{word}") for word in "abc"[: self._random.choice((1, 1, 2, 2, 3))]]
        wanted = [claim["metadata"]["name"] for claim in claims]
        unnamed = list(wanted)
        for number in range(self._random.randrange(2, 10)):
            self._volume(f"{self._made.name}-v{number}", unnamed)
        for number in range(self._random.choice((0, 0, 1, 2))):
            self._occupant(number)
        self._pod(wanted)
        return self._made

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _name(self, word: str) -> str:
        return f"{self._made.name}-{word}"

    def _classes(self) -> None:
        made = documents.storage_class(self._name("made"), None, provisioner=self._made.driver)
        if self._chance(0.3):
            terms = [{"key": ZONE, "values": [self._random.choice(ZONES)]}, {"key": RANK, "values": list("0123")}]
            made["allowedTopologies"] = [{"matchLabelExpressions": self._random.sample(terms, 1)}]
        self._made.first += [
            documents.storage_class(self._name("found"), None),
            documents.storage_class(self._name("now"), None, binding=IMMEDIATE, provisioner=NO_PROVISIONER),
            made,
        ]
        assert made["volumeBindingMode"] == DELAYED
        if self._chance(0.7):
            spec = {"attachRequired": True, "storageCapacity": self._chance(0.6)}
            driver = {"apiVersion": _STORAGE, "kind": "CSIDriver", "metadata": {"name": self._made.driver}}
            self._made.first.append(driver | {"spec": spec})
        for number in range(self._random.randrange(3)):
            self._capacity(number)

    def _capacity(self, number: int) -> None:
        capacity: Document = {
            "apiVersion": _STORAGE,
            "kind": "CSIStorageCapacity",
            "metadata": {"name": self._name(f"room-{number}"), "namespace": self._namespace},
            "storageClassName": self._name(self._random.choice(("made", "made", "made", "found"))),
        }
        if self._chance(0.9):
            where = self._random.choice(({ZONE: "zone-a"}, {ZONE: "zone-b"}, {RANK: "3"}, {}))
            capacity["nodeTopology"] = {"matchLabels": where}
        for key in ("capacity", "maximumVolumeSize"):
            if self._chance(0.7):
                capacity[key] = f"{self._random.randrange(40)}Gi"
        self._made.first.append(capacity)

    def _claim(self, name: str) -> Document:
        kind = self._random.choice(("found", "found", "found", "made", "made", "made", "now", "absent"))
        if self._chance(0.7):
            kind = self._random.choice(("found", "made"))
        spec = documents.claim_spec(self._name(kind), self._size(), self._random.sample(_MODES, 1))
        if self._chance(0.2):
            spec["selector"] = {"matchLabels": {"tier": self._random.choice(("gold", "tin"))}}
        made = documents.claim(self._namespace, name, spec)
        state = self._random.choice(("open",) * 12 + ("bound",) * 5 + ("selected", "selected", "odd"))
        if state == "selected":
            made["metadata"]["annotations"] = {SELECTED: self._random.choice(NODES)}
        elif state == "bound":
            self._bound(made)
        elif state == "odd":
            self._odd(made)
        if not self._chance(0.04):
            self._made.first.append(made)
        return made

    def _bound(self, claim: Document) -> None:
        name = f"{claim['metadata']['name']}-own"
        claim["spec"]["volumeName"] = name
        claim["metadata"]["annotations"] = {COMPLETED: "yes"}
        self._made.phases["PersistentVolumeClaim", claim["metadata"]["name"]] = "Bound"
        if self._chance(0.95):
            self._volume(name, [], holder=claim["metadata"]["name"])

    def _odd(self, claim: Document) -> None:
        state = self._random.choice(("lost", "deleting", "asks-by-name"))
        if state == "lost":
            self._made.phases["PersistentVolumeClaim", claim["metadata"]["name"]] = "Lost"
        elif state == "deleting":
            claim["metadata"]["finalizers"] = ["puzzle.example/keep"]
            self._made.gone.append(claim["metadata"]["name"])
        else:
            claim["spec"]["volumeName"] = self._name("v0")

    def _size(self) -> str:
        return f"{self._sizes.pop()}Gi"

    def _volume(self, name: str, claims: list[str], holder: str = "") -> None:
        made = documents.volume(
            name,
            self._name("found"),
            size=self._size(),
            driver=self._made.driver,
            access_modes=self._random.sample(_MODES, self._random.choice((1, 2, 3))),
            labels=self._labels(),
        )
        if place := self._place():
            made["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": place}}
        made["metadata"]["annotations"] = self._reservation(name, claims)
        if not holder and claims and self._chance(0.2):
            holder = self._random.choice((*claims, self._name("stranger")))
            if holder in claims:
                claims.remove(holder)
        if holder:
            made["spec"]["claimRef"] = {"namespace": self._namespace, "name": holder}
        phases = ("Available",) * 9 + ("Released", "Pending")
        self._made.phases["PersistentVolume", name] = self._random.choice(phases)
        self._made.first.append(made)

    def _reservation(self, name: str, claims: list[str]) -> dict[str, str]:
        """Our annotations on the volume: its reservation and its health. kube-scheduler ignores them."""
        kinds = ("nothing", "nothing", "well", "expired", "promised", "promised", *("unhealthy", "held") * 3)
        kind = self._random.choice(kinds)
        if kind == "promised" and claims:
            self._made.promised[name] = self._random.choice(claims)
        if kind in {"held", "expired"}:
            return held_for(f"{self._namespace}/{self._name('stranger')}", "another", expired=kind == "expired")
        states = {"unhealthy": ("Inaccessible", "DataLoss", "Degraded"), "well": ("Healthy",)}
        return {DEFAULT_PREFIX + "health": self._random.choice(states[kind])} if kind in states else {}

    def _labels(self) -> dict[str, str]:
        labels = {"tier": self._random.choice(("gold", "tin"))}
        if self._chance(0.15):
            labels[ZONE] = self._random.choice((*ZONES, "zone-a__zone-b"))
        return labels

    def _place(self) -> list[dict[str, Any]]:
        """Return the terms of a node affinity, none in one case of three."""
        choices = [
            {"key": ZONE, "operator": "In", "values": [self._random.choice(ZONES)]},
            {"key": ZONE, "operator": "NotIn", "values": [self._random.choice(ZONES)]},
            {"key": ZONE, "operator": "DoesNotExist"},
            {"key": HOSTNAME, "operator": "In", "values": self._random.sample(NODES, 2)},
            {"key": RANK, "operator": "Gt", "values": [str(self._random.randrange(8))]},
        ]
        count = self._random.choice((0, 1, 1))
        return [
            {"matchExpressions": self._random.sample(choices, self._random.choice((1, 1, 2)))} for _ in range(count)
        ]

    def _occupant(self, number: int) -> None:
        """A pod that runs already with a volume of the same driver, or an attachment that it left."""
        name, node = self._name(f"o{number}"), self._random.choice(NODES)
        self._volume(f"{name}-own", [], holder=name)
        if self._chance(0.3):
            source = {"persistentVolumeName": f"{name}-own"}
            attachment = {"apiVersion": _STORAGE, "kind": "VolumeAttachment", "metadata": {"name": name}}
            spec = {"attacher": self._made.driver, "nodeName": node, "source": source}
            self._made.first.append(attachment | {"spec": spec})
            return
        claim = documents.claim(self._namespace, name, documents.claim_spec(self._name("found"), self._size()))
        claim["spec"]["volumeName"] = f"{name}-own"
        claim["metadata"]["annotations"] = {COMPLETED: "yes"}
        self._made.phases["PersistentVolumeClaim", name] = "Bound"
        self._made.first.append(claim)
        spec = documents.pod_spec([name], extra={"nodeName": node})
        self._made.pods.append(documents.pod(self._namespace, name, spec))

    def _pod(self, claims: list[str]) -> None:
        spec = documents.pod_spec(claims, extra={"schedulerName": self._made.scheduler})
        if self._chance(0.2):
            name = f"{self._made.name}-{claims[0]}"
            self._made.pods.append(documents.pod(self._namespace, self._made.name, spec))
            spec["volumes"].append({"name": claims[0] + "-x", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
            template = documents.claim_spec(self._name("found"), self._size())
            spec["volumes"][-1]["ephemeral"]["volumeClaimTemplate"]["spec"] = template
            self._made.owned.append(documents.claim(self._namespace, f"{name}-x", template))
            return
        if self._chance(0.1):
            spec["volumes"].append({"name": "again", "persistentVolumeClaim": {"claimName": claims[0]}})
        self._made.pods.append(documents.pod(self._namespace, self._made.name, spec))
