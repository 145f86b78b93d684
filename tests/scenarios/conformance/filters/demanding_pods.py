"""Random pods that require something of their nodes and of other pods: a seed always produces the same ones.

Each waits alone in two namespaces of its own, with a host port and an extended resource of its own, beside pods that
are assigned already; only the nodes are common. So no placement affects the next pod.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment import documents
from tests.scenarios.environment.documents import HOSTNAME, ZONE, Document

RANK: Final = "rank"
NODES: Final = tuple(f"node-{number}" for number in range(1, 9))
_ZONES: Final = ("zone-a", "zone-b", "zone-c")
_TAINTS: Final[dict[str, tuple[dict[str, str], ...]]] = {
    "node-2": ({"key": "dedicated", "value": "batch", "effect": "NoSchedule"},),
    "node-4": ({"key": "dedicated", "value": "", "effect": "NoExecute"},),
    "node-6": (
        {"key": "dedicated", "value": "web", "effect": "PreferNoSchedule"},
        {"key": "rank.example/high", "value": "6", "effect": "NoSchedule"},
    ),
    "node-7": ({"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"},),
}
_CORDONED: Final = "node-7"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ADDRESSES: Final = ("", "0.0.0.0", "127.0.0.1", "10.0.0.1")


@dataclass
class Puzzle:
    """`there` are assigned pods, `waiting` the one to be decided; of `leaving` and `finished` ones the name is in
    `there`.
    """

    name: str
    namespaces: list[Document] = field(default_factory=list)
    there: list[Document] = field(default_factory=list)
    leaving: list[Document] = field(default_factory=list)
    finished: list[Document] = field(default_factory=list)
    waiting: Document = field(default_factory=dict)
    offers: dict[str, int] = field(default_factory=dict)

    @property
    def resource(self) -> str:
        return f"puzzle.example/{self.name}"


def nodes(puzzles: Sequence[Puzzle]) -> list[Document]:
    """Nodes in three zones, one in none, with what each puzzle has of its resource there."""
    made = []
    for number, name in enumerate(NODES):
        spec = NodeSpec(
            name, _ZONES[number % 3], cpu="64", pods=1000, labels={RANK: str(number)}, taints=_TAINTS.get(name, ())
        )
        document = spec.manifest()
        if number == 0:
            del document["metadata"]["labels"][ZONE]
        document["spec"]["unschedulable"] = name == _CORDONED
        offers = {puzzle.resource: str(puzzle.offers[name]) for puzzle in puzzles if name in puzzle.offers}
        document["status"]["allocatable"] |= offers
        document["status"]["capacity"] = document["status"]["allocatable"]
        document["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        made.append(document)
    return made


def puzzle(number: int, seed: int, scheduler: str) -> Puzzle:
    """Return the puzzle of this number: the same for the same seed."""
    return _Maker(Puzzle(f"p{number}"), Random(f"{seed}/{number}"), 20_000 + number).make(scheduler)


class _Maker:
    def __init__(self, made: Puzzle, random: Random, port: int) -> None:
        self._made, self._random, self._port = made, random, port
        self._own, self._other = made.name, f"{made.name}-other"

    def make(self, scheduler: str) -> Puzzle:
        for name, team in ((self._own, "red"), (self._other, "blue")):
            metadata = {"name": name, "labels": {"team": team, "puzzle": self._made.name}}
            self._made.namespaces.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        for node in NODES:
            if self._chance(0.8):
                self._made.offers[node] = self._random.randrange(1, 5)
        for count in range(self._random.randrange(7)):
            self._assigned(f"{self._made.name}-there-{count}")
        spec = {"schedulerName": scheduler, **self._wishes()}
        self._made.waiting = self._pod(self._own, self._made.name, spec)
        return self._made

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _assigned(self, name: str) -> None:
        """A pod on a node: whatever it requires of others is not checked there."""
        spec: Document = {"nodeName": self._random.choice(NODES)}
        if self._chance(0.4):
            spec["affinity"] = {"podAntiAffinity": {_REQUIRED: [self._term()]}}
        pod = self._pod(self._random.choice((self._own, self._own, self._other)), name, spec)
        self._made.there.append(pod)
        if self._chance(0.15):
            self._random.choice((self._made.leaving, self._made.finished)).append(pod)

    def _pod(self, namespace: str, name: str, spec: Document) -> Document:
        pod = documents.pod(namespace, name, documents.pod_spec(extra=spec))
        pod["metadata"]["labels"] = {
            "app": self._random.choice(("web", "db")),
            "rev": self._random.choice(("1", "2")),
            **({"tier": "gold"} if self._chance(0.5) else {}),
        }
        self._containers(pod["spec"])
        return pod

    def _containers(self, spec: Document) -> None:
        main = spec["containers"][0]
        if self._chance(0.5):
            self._request(main, 2)
        if self._chance(0.3):
            main["ports"] = [self._host_port()]
        if self._chance(0.25):
            first = {"name": "first", "image": main["image"]}
            self._request(first, 4)
            if self._chance(0.6):
                first["restartPolicy"] = "Always"
                first["ports"] = [self._host_port()] if self._chance(0.5) else []
            spec["initContainers"] = [first]
            if self._chance(0.4):
                second = {"name": "second", "image": main["image"]}
                self._request(second, 3)
                spec["initContainers"].append(second)

    def _request(self, container: Document, most: int) -> None:
        amount = str(self._random.randint(0, most))
        resources = container.setdefault("resources", {"requests": {}})
        resources["requests"][self._made.resource] = amount
        resources["limits"] = {self._made.resource: amount}

    def _host_port(self) -> Document:
        port = {"containerPort": 80, "hostPort": self._port, "hostIP": self._random.choice(_ADDRESSES)}
        return port | {"protocol": self._random.choice(("TCP", "TCP", "UDP"))}

    def _wishes(self) -> Document:
        """What the waiting pod requires, each of it in some cases."""
        spec: Document = {}
        affinity: Document = {}
        if self._chance(0.5):
            spec["tolerations"] = [self._toleration() for _ in range(self._random.randint(1, 2))]
        if self._chance(0.2):
            spec["nodeSelector"] = {ZONE: self._random.choice(_ZONES)}
        if self._chance(0.35):
            terms = [self._node_term() for _ in range(self._random.randint(1, 2))]
            affinity["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": terms}}
        for kind in ("podAffinity", "podAntiAffinity"):
            if self._chance(0.35):
                affinity[kind] = {_REQUIRED: [self._term() for _ in range(self._random.choice((1, 1, 2)))]}
        if affinity:
            spec["affinity"] = affinity
        if self._chance(0.5):
            keys = self._random.sample((ZONE, HOSTNAME, RANK), self._random.choice((1, 1, 2)))
            spec["topologySpreadConstraints"] = [self._spread(key) for key in keys]
        return spec

    def _toleration(self) -> Document:
        effect = {"effect": effect} if (effect := self._random.choice(("", "", "NoSchedule", "NoExecute"))) else {}
        return self._random.choice(
            [
                {"operator": "Exists", **effect},
                {"key": "dedicated", "operator": "Exists", **effect},
                {"key": "dedicated", "value": "batch", **effect},
                {"key": "dedicated", "operator": "Equal", "value": "", **effect},
                {"key": "rank.example/high", "value": self._random.choice(("5", "6")), **effect},
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", **effect},
            ]
        )

    def _node_term(self) -> Document:
        choices = [
            {"key": ZONE, "operator": "In", "values": self._random.sample(_ZONES, 2)},
            {"key": ZONE, "operator": "NotIn", "values": [self._random.choice(_ZONES)]},
            {"key": ZONE, "operator": self._random.choice(("Exists", "DoesNotExist"))},
            {"key": RANK, "operator": self._random.choice(("Gt", "Lt")), "values": [str(self._random.randrange(8))]},
            {"key": HOSTNAME, "operator": "Gt", "values": ["1"]},
        ]
        term: Document = {"matchExpressions": self._random.sample(choices, self._random.choice((1, 1, 2)))}
        if self._chance(0.25):
            operator = self._random.choice(("In", "NotIn"))
            term["matchFields"] = [
                {"key": "metadata.name", "operator": operator, "values": [self._random.choice(NODES)]}
            ]
            if self._chance(0.5):
                del term["matchExpressions"]
        return term

    def _selector(self) -> Document:
        app, rev = self._random.choice(("web", "db")), self._random.choice(("1", "2"))
        return self._random.choice(
            [
                {"matchLabels": {"app": app}},
                {"matchLabels": {"app": app}},
                {"matchLabels": {"app": app, "rev": rev}},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
                {"matchExpressions": [{"key": "tier", "operator": self._random.choice(("Exists", "DoesNotExist"))}]},
                {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold", "tin"]}]},
            ]
        )

    def _term(self) -> Document:
        """Namespaces beyond the own one are named, or selected together with the puzzle's label."""
        term: Document = {"topologyKey": self._random.choice((HOSTNAME, ZONE, ZONE, RANK))}
        if self._chance(0.92):
            term["labelSelector"] = {} if self._chance(0.08) else self._selector()
        where = self._random.choice(("own", "own", "own", "named", "selected", "both"))
        if where in {"named", "both"}:
            term["namespaces"] = self._random.sample((self._own, self._other), self._random.choice((1, 2)))
        if where in {"selected", "both"}:
            team = self._random.choice(({"team": "red"}, {"team": "blue"}, {"team": "none"}, {}))
            term["namespaceSelector"] = {"matchLabels": {"puzzle": self._made.name, **team}}
        if "labelSelector" in term and self._chance(0.25):
            keys = self._random.choice(("matchLabelKeys", "mismatchLabelKeys"))
            if not _names("rev", term["labelSelector"]):
                term[keys] = ["rev"]
        return term

    def _spread(self, key: str) -> Document:
        spread: dict[str, Any] = {
            "maxSkew": self._random.choice((1, 1, 2)),
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {} if self._chance(0.1) else self._selector(),
        }
        if self._chance(0.3):
            spread["minDomains"] = self._random.randint(1, 4)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if self._chance(0.5):
                spread[policy] = self._random.choice(("Honor", "Ignore"))
        if self._chance(0.3) and not _names("rev", spread["labelSelector"]):
            spread["matchLabelKeys"] = ["rev"]
        return spread


def _names(key: str, selector: Document) -> bool:
    """Whether a selector has the key: the API server rejects it among matchLabelKeys then."""
    return key in selector.get("matchLabels", {})
