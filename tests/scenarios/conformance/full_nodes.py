"""Random little crowds: a few nodes full of pods, and one pod that can get in only if others leave.

Crowds share nothing. Pods of one have started at different times, so that kube-scheduler leaves nothing to chance
between them. Budgets permit everything or nothing: one that permits some it takes for exceeded before it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment import documents
from tests.scenarios.environment.documents import HOSTNAME, Document

PRIORITIES: Final = (-5, 0, 3, 7, 10, 20)
OWN: Final = 10
BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_CORES: Final = (4, 6, 8)


def class_of(priority: int) -> str:
    return f"p{priority}".replace("-", "minus-")


def priority_classes() -> list[Document]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": class_of(priority)},
            "value": priority,
        }
        for priority in PRIORITIES
    ]


@dataclass
class Crowd:
    """Nodes, and what is created when they are ready; `allowed` is the budget's status."""

    name: str
    namespace: str
    nodes: list[Document] = field(default_factory=list)
    storage: list[Document] = field(default_factory=list)
    pods: list[Document] = field(default_factory=list)
    waiting: Document = field(default_factory=dict)
    started: dict[str, str] = field(default_factory=dict)
    allowed: int = 0

    def documents(self) -> Iterator[Document]:
        """Yield everything that is there before the waiting pod."""
        yield self.budget
        yield from self.storage
        yield from self.pods

    def states(self) -> Iterator[tuple[Document, Document]]:
        """Yield each of them with its status."""
        counts = {"currentHealthy": self.allowed, "desiredHealthy": 0, "expectedPods": len(self.pods)}
        yield self.budget, {"disruptionsAllowed": self.allowed, "observedGeneration": 1, **counts}
        yield from ((document, {"phase": "Bound"}) for document in self.storage)
        for pod in self.pods:
            yield pod, {"phase": "Running", "startTime": self.started[pod["metadata"]["name"]]}

    @property
    def budget(self) -> Document:
        selector = {"matchLabels": {"crowd": self.name, "guarded": "yes"}}
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"namespace": self.namespace, "name": self.name},
            "spec": {"minAvailable": 0, "selector": selector},
        }


def crowd(number: int, seed: int, namespace: str, scheduler: str) -> Crowd:
    """Return the crowd of that number: always the same one for a seed."""
    random, crowd = Random(f"{seed}-{number}"), Crowd(f"crowd-{number}", namespace)
    crowd.allowed = random.choice((0, 100))
    shared = random.random() < 0.2
    for index in range(random.randint(2, 4)):
        _fill(crowd, random, f"{crowd.name}-{index}", random.choice(_CORES))
    if shared:
        _share_a_claim(crowd, random)
    minutes = random.sample(range(600), len(crowd.pods))
    for pod, minute in zip(crowd.pods, minutes, strict=True):
        crowd.started[pod["metadata"]["name"]] = f"{BEGIN + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%SZ}"
    wish = _wish(crowd.name, random)
    if not crowd.allowed and "podAffinity" in wish.get("affinity", {}):
        # kube-scheduler puts those aside in thought too that it must not evict, and finds nobody left to be near.
        wish = {}
    spec = {**wish, "schedulerName": scheduler, "nodeSelector": {"crowd": crowd.name}}
    crowd.waiting = _pod(crowd, crowd.name, OWN, random.randint(2, 8), random, spec, shared=shared)
    return crowd


def _fill(crowd: Crowd, random: Random, node: str, cores: int) -> None:
    taints = ({"key": "own", "value": "", "effect": "NoSchedule"},) if random.random() < 0.1 else ()
    document = NodeSpec(node, "zone-a", cpu=str(cores), labels={"crowd": crowd.name}, taints=taints).manifest()
    document["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    crowd.nodes.append(document)
    free, ports = cores, {80}
    while free and random.random() < 0.95:
        cpu = random.randint(1, min(free, 3))
        free -= cpu
        spec = {"nodeName": node, **_wish(crowd.name, random, anti=0.1)}
        pod = _pod(crowd, f"{node}-{free}", random.choice(PRIORITIES), cpu, random, spec)
        if ports and random.random() < 0.2:
            _take_port(pod, ports.pop())
        crowd.pods.append(pod)


def _pod(
    crowd: Crowd, name: str, priority: int, cpu: int, random: Random, spec: Document, *, shared: bool = False
) -> Document:
    extra = {"priorityClassName": class_of(priority), **spec}
    pod = documents.pod(
        crowd.namespace, name, documents.pod_spec((f"{crowd.name}-data",) if shared else (), extra=extra)
    )
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": str(cpu)}
    pod["metadata"]["labels"] = {
        "crowd": crowd.name,
        "app": random.choice(("web", "db")),
        "guarded": random.choice(("yes", "no", "no")),
    }
    if "nodeName" not in spec and random.random() < 0.2:
        _take_port(pod, 80)
    return pod


def _take_port(pod: Document, port: int) -> None:
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]


def _wish(name: str, random: Random, anti: float = 0.25) -> dict[str, Any]:
    """What a pod says of its neighbours, if anything."""
    webs = {"matchLabels": {"crowd": name, "app": "web"}}
    term = {"topologyKey": HOSTNAME, "labelSelector": webs}
    chance = random.random()
    if chance < anti:
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    if chance < 2 * anti and anti > 0.2:
        spread = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": webs}
        return {"topologySpreadConstraints": [spread]}
    if chance > 0.95 and anti > 0.2:
        return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    return {}


def _share_a_claim(crowd: Crowd, random: Random) -> None:
    """Give one of the pods, and later the waiting one, a claim that only one pod may use."""
    name, modes = f"{crowd.name}-data", ("ReadWriteOncePod",)
    claim = documents.claim(crowd.namespace, name, documents.claim_spec("disks", access_modes=modes))
    claim["metadata"]["annotations"] = {_COMPLETED: "yes"}
    claim["spec"]["volumeName"] = name
    volume = documents.volume(name, "disks", access_modes=modes)
    volume["spec"]["claimRef"] = {"namespace": crowd.namespace, "name": name}
    crowd.storage += [claim, volume]
    if crowd.pods:
        user = random.choice(crowd.pods)
        user["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
