"""A small cluster in which nothing moves, and pods that fit none of its nodes: one for each cause.

No controller runs, so bound claims and the phases of volumes are written as the controllers would.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.documents import HOSTNAME, ZONE, Document, claim_spec

NAMESPACE: Final = "rejections"
DRIVER: Final = "none.csi.example"
OTHER_DRIVER: Final = "other.csi.example"
CAPACITY_DRIVER: Final = "capacity.csi.example"
STATIC, IMMEDIATE, MADE = "static", "immediate", "made"
MODEST: Final = "modest"
"""A priority class whose pods preempt no others."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_WEB: Final = {"matchLabels": {"app": "web"}}
_DISK: Final = {"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1"}}
_PORT: Final = {"containerPort": 80, "hostPort": 8080}
_HOLD: Final = "story.example/hold"


@dataclass(frozen=True)
class Cause:
    """Why a pod is rejected: what it asks for beyond a plain pod, and words that kube-scheduler then uses."""

    message: str
    claims: tuple[str, ...] = ()
    cpu: str = "10m"
    labels: dict[str, str] = field(default_factory=dict)
    ports: tuple[Document, ...] = ()
    volumes: tuple[Document, ...] = ()
    spec: Document = field(default_factory=dict)
    elsewhere: bool = False
    """Beside what kube-scheduler says of a node there is another rule that rejects it, which eviction does not cure."""

    def pod(self, name: str, scheduler: str) -> Document:
        pod = documents.pod(NAMESPACE, name, documents.pod_spec(self.claims, extra=self.spec))
        pod["spec"] |= {"schedulerName": scheduler}
        pod["metadata"]["labels"] = self.labels
        container = pod["spec"]["containers"][0]
        container["resources"]["requests"]["cpu"] = self.cpu
        container["ports"] = list(self.ports)
        if "resourceClaims" in self.spec:
            container["resources"]["claims"] = [{"name": each["name"]} for each in self.spec["resourceClaims"]]
        pod["spec"]["volumes"] += self.volumes
        return pod


def _on(node: str) -> Document:
    return {"nodeSelector": {HOSTNAME: node}}


def _named(*nodes: str) -> Document:
    """Node affinity by the node's name: each of these at once."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]} for node in nodes]
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields}]}}}}


def _neighbours(kind: str, app: str, **spec: Any) -> Document:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {_REQUIRED: [term]}}, **spec}


_SPREAD: Final = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _WEB}
_SCRATCH: Final = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(STATIC)}}}

CAUSES: Final = {
    "cpu": Cause("Insufficient cpu", cpu="999"),
    "taint": Cause("untolerated taint", spec=_on("b")),
    "cordon": Cause("were unschedulable", spec=_on("c")),
    "pods": Cause("Too many pods", spec=_on("d")),
    "selector": Cause("didn't match Pod's node affinity/selector", spec={"nodeSelector": {"disk": "ssd"}}),
    "node name": Cause("didn't satisfy plugin(s) [NodeAffinity]", cpu="999", spec=_named("a")),
    "node name that nothing has": Cause("didn't satisfy plugin(s) [NodeAffinity]", spec=_named("nowhere")),
    "node names that exclude each other": Cause("conflict", spec=_named("a", "e")),
    "no preemption": Cause("preemptionPolicy=Never", cpu="999", spec={"priorityClassName": MODEST}),
    "port": Cause("free ports", ports=(_PORT,), spec=_on("a")),
    "disk": Cause("no available disk", volumes=(_DISK,), spec=_on("a")),
    "spread": Cause("missing required label", labels={"app": "web"}, spec={"topologySpreadConstraints": [_SPREAD]}),
    "affinity": Cause("didn't match pod affinity rules", spec=_neighbours("podAffinity", "nobody")),
    "anti-affinity": Cause("anti-affinity rules", spec=_neighbours("podAntiAffinity", "web", **_on("a"))),
    "anti-affinity of others": Cause("existing pods anti-affinity", labels={"app": "lonely"}, spec=_on("a")),
    "missing claim": Cause('persistentvolumeclaim "nothing" not found', claims=("nothing",)),
    "missing ephemeral claim": Cause("waiting for ephemeral volume controller", volumes=(_SCRATCH,)),
    "ephemeral claim of another": Cause("pod is not owner", volumes=({**_SCRATCH, "name": "taken"},)),
    "immediate claim": Cause("unbound immediate", claims=("waits",)),
    "claim without class": Cause("unbound immediate", claims=("classless",)),
    "deleted claim": Cause("is being deleted", claims=("leaving",)),
    "lost claim": Cause("bound to non-existent persistentvolume", claims=("lost",)),
    "volume that is gone": Cause("not found", claims=("orphan",)),
    "no volume": Cause("available persistent volumes to bind", claims=("open",), elsewhere=True),
    "no volume and no cpu": Cause("Insufficient cpu", claims=("open",), cpu="999"),
    "no storage": Cause("enough free storage", claims=("made",), elsewhere=True),
    "volume elsewhere": Cause("PersistentVolume's node affinity", claims=("elsewhere",), elsewhere=True),
    "volume in another zone by label": Cause("no available volume zone", claims=("zoned",), spec=_on("a")),
    "claim of one pod": Cause("ReadWriteOncePod", claims=("sole",), spec=_on("a")),
    "volume limit": Cause("exceed max volume count", claims=("second",), spec=_on("a")),
}

UNSUPPORTED: Final = Cause(
    "",
    spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]},
)
"""Dynamic resource allocation, which our scheduler rejects by itself."""

FITS: Final = Cause("", spec=_on("e"))


def taken_claims(pods: Iterable[str]) -> Iterator[Document]:
    """The claims of the pods' ephemeral volumes `taken`, which another writer created."""
    for pod in pods:
        yield documents.claim(NAMESPACE, f"{pod}-taken", claim_spec(STATIC))


async def lay_out(admin: Admin) -> None:
    """Create nodes, volumes, claims, and the pods that run already."""
    await admin.create(*_nodes(), *_classes(), *_drivers(), _modest())
    taints = {"b": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]}
    for name in "abcde":
        # Every new node is tainted as not ready.
        await admin.patch("Node", name, {"spec": {"taints": taints.get(name)}})
    await admin.create(*(documents.claim(NAMESPACE, name, spec) for name, spec in _unbound().items()))
    await admin.patch("PersistentVolumeClaim", "leaving", {"metadata": {"finalizers": [_HOLD]}}, NAMESPACE)
    await admin.delete("PersistentVolumeClaim", "leaving", NAMESPACE)
    await _bind(admin, "elsewhere", documents.volume("pv-elsewhere", STATIC, zone="zone-z", driver=OTHER_DRIVER))
    await _bind(admin, "zoned", documents.volume("pv-zoned", STATIC, labels={ZONE: "zone-z"}, driver=OTHER_DRIVER))
    await _bind(admin, "second", documents.volume("pv-second", STATIC))
    sole = documents.volume("pv-sole", STATIC, access_modes=("ReadWriteOncePod",))
    await _bind(admin, "sole", sole)
    await _bind(admin, "orphan")
    await _bind(admin, "lost", phase="Lost")
    await admin.create(*_running())


async def _bind(admin: Admin, claim: str, volume: Document | None = None, phase: str = "Bound") -> None:
    """Have the claim bound to the volume, or to one that does not exist."""
    modes = volume["spec"]["accessModes"] if volume is not None else ["ReadWriteOnce"]
    name = volume["metadata"]["name"] if volume is not None else "gone"
    wanted = documents.claim(NAMESPACE, claim, {**claim_spec(STATIC), "accessModes": modes, "volumeName": name})
    wanted["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    (made,) = await admin.create(wanted)
    status = {"status": {"phase": phase}}
    await admin.patch("PersistentVolumeClaim", claim, status, NAMESPACE, subresource="status")
    if volume is not None:
        reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": claim}
        volume["spec"]["claimRef"] = {**reference, "uid": made["metadata"]["uid"]}
        await admin.create(volume)
        await admin.patch("PersistentVolume", name, status, subresource="status")


def _nodes() -> Iterator[Document]:
    """Node `a` has what runs, `b` a taint, `c` is cordoned, `d` is full, `e` is in no zone."""
    for name, zone in (("a", "zone-a"), ("b", "zone-b"), ("c", "zone-c"), ("d", "zone-a"), ("e", "")):
        resources = {"cpu": "4", "memory": "8Gi", "pods": "1" if name == "d" else "110"}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {HOSTNAME: name} | ({ZONE: zone} if zone else {})},
            "spec": {"unschedulable": name == "c"},
            "status": {"capacity": resources, "allocatable": resources},
        }


def _classes() -> Iterator[Document]:
    yield documents.storage_class(STATIC, None)
    yield documents.storage_class(IMMEDIATE, None, binding=documents.IMMEDIATE)
    yield documents.storage_class(MADE, None, provisioner=CAPACITY_DRIVER)


def _drivers() -> Iterator[Document]:
    """One that publishes how much storage there is, and one that attaches one volume to node `a`."""
    storage = "storage.k8s.io/v1"
    spec = {"storageCapacity": True}
    yield {"apiVersion": storage, "kind": "CSIDriver", "metadata": {"name": CAPACITY_DRIVER}, "spec": spec}
    drivers = [{"name": DRIVER, "nodeID": "a", "topologyKeys": [], "allocatable": {"count": 1}}]
    yield {"apiVersion": storage, "kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": drivers}}


def _modest() -> Document:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": MODEST},
        "value": 1000,
        "preemptionPolicy": "Never",
    }


def _unbound() -> dict[str, Document]:
    classes = {"open": STATIC, "leaving": STATIC, "waits": IMMEDIATE, "classless": "unknown", "made": MADE}
    return {name: claim_spec(storage_class) for name, storage_class in classes.items()}


def _running() -> Iterator[Document]:
    guard = _neighbours("podAntiAffinity", "lonely")
    holder = Cause("", claims=("sole",), labels={"app": "web"}, ports=(_PORT,), volumes=(_DISK,))
    for name, node, pod in (("holder", "a", holder), ("guard", "a", Cause("", spec=guard)), ("filler", "d", Cause(""))):
        document = pod.pod(name, "default-scheduler")
        document["spec"]["nodeName"] = node
        yield document
