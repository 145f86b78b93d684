"""What a user of a namespace can create to block a controller, each beside a cluster where it hurts most."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from bench.control_plane.documents import Document, claim, pod, storage_class, volume
from bench.in_memory import local_pools
from kube.decoding.decode import DECODERS
from kube.objects.model import Record
from kube.rules.topology import ZONE_LABEL

HOSTNAME: Final = "kubernetes.io/hostname"
_ZONES: Final = ("zone-a", "zone-b", "zone-c")


def record_of(document: Document) -> Record:
    """Return what a cluster in memory holds of a document, which gets a uid and a version."""
    metadata: dict[str, Any] = {"uid": f"uid-{document['metadata']['name']}", "resourceVersion": "1"}
    text = msgspec.json.encode({**document, "metadata": {**metadata, **document["metadata"]}})
    return DECODERS[document["kind"]](text)


@dataclass(frozen=True, slots=True)
class HostileInput:
    """`standing` is there before; `arriving`, with `pods` pods, comes all at once."""

    name: str
    standing: list[Document]
    arriving: list[Document]
    pods: int


def inputs(quick: bool) -> Iterator[HostileInput]:
    """Yield the inputs; quick: a tenth of everything, to see that it works."""
    part = 10 if quick else 1
    for name, (make, size) in _INPUTS.items():
        standing, arriving = make(size // part)
        pods = sum(document["kind"] == "Pod" for document in arriving)
        yield HostileInput(name, [storage_class(), *standing], arriving, pods)


Made = tuple[list[Document], list[Document]]


def _alike(pods: int) -> Made:
    """As many pods of one shape; every volume of the class is bound to another claim."""
    return [*nodes(30), *_bound(4900)], list(_pods(pods, lambda _: [10]))


def _of_all_shapes(pods: int) -> Made:
    """As many pods, each with a different request; the volumes are Available and too small, or taken."""
    free = [_free(number, 1) for number in range(2000)]
    return [*nodes(30), *_bound(2900), *free], list(_pods(pods, lambda number: [10 + number]))


def _equal_claims(claims: int) -> Made:
    """One pod with as many equal claims, and more volumes than that in each zone."""
    free = [_free(number, 1 + number // 30) for number in range(4 * claims)]
    return [*nodes(30), *free], list(_pods(1, lambda _: [1] * claims))


def _joint(pods: int) -> Made:
    """As many pods with 64 claims of 64 sizes; each zone lacks one volume, so every assignment fails at its end."""
    free = [_free(3 * number + zone, 1 + number) for number in range(63) for zone in range(3)]
    return [*nodes(30), *free], list(_pods(pods, lambda _: [1 + each % 63 for each in range(64)]))


def _local(count: int) -> Made:
    """As many nodes with four local volumes each, and 20 pods of five claims: each node is tried in vain."""
    free = [local_volume(node, number) for node in range(count) for number in range(4)]
    return [*nodes(count), *free], list(_pods(20, lambda number: [1 + number % 3] * 5))


def _shared(pods: int) -> Made:
    """As many pods that use one claim, which no volume fits, each with different requests."""
    shared = [claim("shared", 10)]
    users = [_with_cpu(pod(f"hostile-{number:04}", ["shared"], gated=True), number + 1) for number in range(pods)]
    return [*nodes(30), *_bound(4900)], [*shared, *users]


def _annotated(claims: int) -> Made:
    """As many claims with 250 KiB of annotations each, the most that the API server takes."""
    large = {"metadata": {"annotations": {"note": "x" * 250 * 1024}}}
    documents = list(_pods(claims, lambda _: [10]))
    for document in documents:
        if document["kind"] == "PersistentVolumeClaim":
            document["metadata"] |= large["metadata"]
    return [*nodes(30), *_bound(100)], documents


def _selective(pods: int) -> Made:
    """As many pods whose claims select by 100 requirements among volumes that all have different labels."""
    free = [_labelled(_free(number, 10), {"disk": f"d{number}"}) for number in range(4900)]
    documents = list(_pods(pods, lambda number: [1 + number % 9]))
    for number, document in enumerate(documents):
        if document["kind"] == "PersistentVolumeClaim":
            wanted = [{"key": f"k{number}-{each}", "operator": "Exists"} for each in range(99)]
            document["spec"]["selector"] = {"matchExpressions": [{"key": "disk", "operator": "Exists"}, *wanted]}
    return [*nodes(30), *free], documents


def _demanding(requirements: int) -> Made:
    """Ten pods whose claims select by as many requirements, 1.3 MB each, among 2,000 volumes with different labels, and
    ten whose claims select by as many as are evaluated.
    """
    free = [_labelled(_free(number, 10), {"disk": f"d{number}"}) for number in range(2000)]
    documents = list(_pods(20, lambda _: [1]))
    for number, document in enumerate(documents):
        if document["kind"] == "PersistentVolumeClaim":
            count = requirements if number % 4 else 300
            wanted = [{"key": f"k{number}-{each}", "operator": "DoesNotExist"} for each in range(count)]
            none = {"key": "disk", "operator": "In", "values": ["none"]}
            document["spec"]["selector"] = {"matchExpressions": [*wanted, none]}
    return [*nodes(30), *free], documents


def _noded(terms: int) -> Made:
    """50 pods with as many terms of node affinity, on 2,000 nodes none of which matches."""
    documents = list(_pods(50, lambda _: [1]))
    for number, document in enumerate(documents):
        if document["kind"] == "Pod":
            requirements = [{"key": f"k{number}", "operator": "In", "values": [f"v{each}"]} for each in range(terms)]
            affinity = {"nodeSelectorTerms": [{"matchExpressions": [each]} for each in requirements]}
            document["spec"]["affinity"] = {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": affinity}
            }
    return [*nodes(2000), *[_free(number, 1) for number in range(300)]], documents


def _competing(pods: int) -> Made:
    """As many pods of two or three claims that compete for too few volumes: the search for the best plan goes on."""
    wanted = [[1 + (number * 7 + each * 3) % 10 for each in range(2 + number % 2)] for number in range(pods)]
    sizes = [(number % 3, size) for number, each in enumerate(wanted) for size in each]
    free = [_free(3 * number + zone, size) for number, (zone, size) in enumerate(sizes) if number % 20]
    return [*nodes(30), *free], list(_pods(pods, lambda number: wanted[number]))


def _competing_for_local(pods: int) -> Made:
    """As many pods that compete for volumes on as many nodes as there are pods to a node, a tenth too few."""
    requests = [[1 + (number * 7 + each * 3) % 9 for each in range(1 + number % 3)] for number in range(pods)]
    free: list[Document] = []
    for number, each in enumerate(size for sizes in requests for size in sizes):
        if number % 10:
            document = local_volume(number % 200, number)
            document["spec"]["capacity"] = {"storage": f"{each}Gi"}
            free.append(document)
    return [*nodes(200), *free], list(_pods(pods, lambda number: requests[number]))


def _in_flight(claims: int) -> Made:
    """As many claims in flight in the pools of a quarter as many nodes; a class that shares these pools and is from now
    on their first by name, its reports, and 20 pods that no pool has room for.
    """
    there = list(nodes(claims // 4))
    names = [each["metadata"]["name"] for each in there]
    standing = [local_pools.driver(), local_pools.provisioning_class()]
    standing += [make(name) for name in names for make in (local_pools.csi_node, local_pools.report)]
    first = f"a-{local_pools.MADE}"
    arriving = [local_pools.provisioning_class(first), *(local_pools.report(name, first) for name in names)]
    waiting = [each for number in range(20) for each in local_pools.wanting(f"hostile-{number:04}", 150, 51 + number)]
    return [*there, *standing, *local_pools.in_flight(names, claims)], [*arriving, *waiting]


def _nothing(_: int) -> Made:
    """The baseline of an undisturbed controller on this machine, to compare the other inputs with."""
    return [*nodes(30), *_bound(4900)], []


_INPUTS: Final[Mapping[str, tuple[Callable[[int], Made], int]]] = {
    "nothing, for comparison": (_nothing, 0),
    "650 rejected pods of one shape, 4,900 bound volumes": (_alike, 650),
    "650 rejected pods of 650 shapes, 4,900 volumes": (_of_all_shapes, 650),
    "one pod with 300 equal claims": (_equal_claims, 300),
    "10 pods with 64 claims of 63 sizes, a volume short": (_joint, 10),
    "20 pods with 5 claims, 1,000 nodes with 4 local volumes": (_local, 1000),
    "650 pods that share a claim nothing fits": (_shared, 650),
    "200 claims with 250 KiB of annotations": (_annotated, 200),
    "100 pods, selectors of 100 requirements, 4,900 volumes": (_selective, 100),
    "20 claims with 300 or 30,000 requirements, 2,000 volumes": (_demanding, 30_000),
    "1,000 pods of 2 or 3 claims, 1 of 20 volumes missing": (_competing, 1000),
    "400 pods of 1 to 3 claims on 200 nodes, 1 of 10 volumes missing": (_competing_for_local, 400),
    "50 pods with 64 terms of node affinity, 2,000 nodes": (_noded, 64),
    "20,000 claims in flight in 5,000 pools, which another class joins": (_in_flight, 20_000),
}


def _pods(count: int, sizes: Callable[[int], list[int]]) -> Iterator[Document]:
    for number in range(count):
        names = [f"hostile-{number:04}-{each:03}" for each, _ in enumerate(sizes(number))]
        yield from (claim(name, size) for name, size in zip(names, sizes(number), strict=True))
        yield pod(f"hostile-{number:04}", names, gated=True)


def _with_cpu(document: Document, milli: int) -> Document:
    document["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{milli}m"}}
    return document


def nodes(count: int) -> Iterator[Document]:
    """Yield nodes with room for many pods, in three zones."""
    for number in range(count):
        name = f"node-{number:04}"
        labels = {HOSTNAME: name, ZONE_LABEL: _ZONES[number % len(_ZONES)]}
        resources = {"cpu": "64", "memory": "256Gi", "pods": "250"}
        status = {"allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": status,
        }


def _free(number: int, gibibytes: int) -> Document:
    return _in_phase(volume(f"free-{number:05}", _ZONES[number % len(_ZONES)], gibibytes), "Available")


def _bound(count: int) -> Iterator[Document]:
    for number in range(count):
        document = _in_phase(volume(f"bound-{number:05}", _ZONES[number % len(_ZONES)], 100), "Bound")
        document["spec"]["claimRef"] = {"namespace": "other", "name": f"c{number}", "uid": f"uid-{number}"}
        yield document


def local_volume(node: int, number: int) -> Document:
    """Return a volume that is accessible from one node only."""
    document = _in_phase(volume(f"local-{node:04}-{number}", "", 10), "Available")
    requirement = {"key": HOSTNAME, "operator": "In", "values": [f"node-{node:04}"]}
    document["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}
    return document


def _labelled(document: Document, labels: dict[str, str]) -> Document:
    document["metadata"]["labels"] = labels
    return document


def _in_phase(document: dict[str, Any], phase: str) -> Document:
    return {**document, "status": {"phase": phase}}
