"""Every next command, read as by a user who is about to paste it: what it changes, the whole cluster has to allow.

What is allowed follows from all objects of the cluster, also where `why` reads a part of them.
"""

import io
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from kube.objects.model import BIND_COMPLETED
from tests.why.documents import NAMESPACE, NOW, Document, claim, facts_of, node, pod, volume
from tests.why.dumps.test_partial_dumps import DUMPS, flat
from tests.why.incidents.incident import incidents
from tests.why.page_examples import EXAMPLES, Example
from why.errors import WhyError
from why.explain.answering import report_on, waiting
from why.explain.targets import parse_target
from why.facts.facts import Facts
from why.reading.dump import read_dump
from why.report.report import Item

PREFIX: Final = "scheduler.cloud.example/"
READS: Final = frozenset({"api-resources", "describe", "get", "logs", "version"})
LOSES: Final = ("--force", "--grace-period", "finalizers", "out-of-service", "drain", "--all", "--overwrite")


@dataclass(frozen=True)
class Cluster:
    """All objects of a cluster, whatever was read of them."""

    documents: Sequence[Document]

    def of(self, kind: str, name: str = "", namespace: str = "") -> list[Document]:
        return [
            each
            for each in self.documents
            if each["kind"] == kind
            and name in {"", each["metadata"]["name"]}
            and namespace in {"", each["metadata"].get("namespace", "")}
        ]

    def has_data(self, asked: Document) -> bool:
        """Whether the claim was ever bound, or a volume is bound to it."""
        bound = BIND_COMPLETED in asked["metadata"].get("annotations", {}) or asked["status"].get("phase") != "Pending"
        uid = asked["metadata"]["uid"]
        return bound or any(each["spec"].get("claimRef", {}).get("uid") == uid for each in self.of("PersistentVolume"))

    def holds_data_back(self, pod: Document) -> bool:
        """Whether a claim waits for the pod to be gone, and takes its volume's data with it then."""
        names = [each.get("persistentVolumeClaim", {}).get("claimName") for each in pod["spec"].get("volumes", [])]
        claims = [each for name in names if name for each in self.of("PersistentVolumeClaim", name)]
        going = [each for each in claims if "deletionTimestamp" in each["metadata"] and each["spec"].get("volumeName")]
        volumes = [made for each in going for made in self.of("PersistentVolume", each["spec"]["volumeName"])]
        return any(made["spec"].get("persistentVolumeReclaimPolicy") == "Delete" for made in volumes)


def _deletes(cluster: Cluster, words: Sequence[str], namespace: str) -> bool:
    """Only claims without data, and pods that run nowhere."""
    kind, *names = words
    if kind == "pvc":
        claims = [each for name in names for each in cluster.of("PersistentVolumeClaim", name, namespace)]
        return bool(claims) and not any(cluster.has_data(each) for each in claims)
    pods = [each for name in names for each in cluster.of("Pod", name, namespace)]
    if kind != "pod" or any(cluster.holds_data_back(each) for each in pods):
        return False
    return all(each["status"].get("phase") in {"Pending", "Succeeded", "Failed"} for each in pods)


def _annotates(cluster: Cluster, words: Sequence[str], namespace: str) -> bool:
    """The default class; a claim whose volume is gone; a claim whose node is gone or has no volume of it."""
    kind, name, *annotations = words
    if kind == "storageclass":
        return bool(cluster.of("StorageClass", name))
    (annotated,) = cluster.of("PersistentVolumeClaim", name, namespace)
    if f"{BIND_COMPLETED}-" in annotations:
        return not cluster.of("PersistentVolume", annotated["spec"].get("volumeName", "")) or not cluster.has_data(
            {**annotated, "metadata": {**annotated["metadata"], "annotations": {}}, "status": {"phase": "Pending"}}
        )
    return annotations == ["volume.kubernetes.io/selected-node-"] and not cluster.has_data(annotated)


def _patches(cluster: Cluster, words: Sequence[str], namespace: str) -> bool:
    """A volume that is still that of a claim which is gone; a claim without a class; how a Deployment rolls."""
    kind, name, *_, text = words
    patch = json.loads(text)
    if kind == "pv" and isinstance(patch, list):
        test, *changes = patch
        (volume,) = cluster.of("PersistentVolume", name)
        reference = volume["spec"]["claimRef"]
        owners = cluster.of("PersistentVolumeClaim", reference["name"], reference["namespace"])
        is_gone = all(each["metadata"]["uid"] != reference["uid"] for each in owners)
        tested = (test["op"], test["path"], test.get("value")) == ("test", "/spec/claimRef/uid", reference["uid"])
        return is_gone and tested and all(each["path"] != "/spec/claimRef" or "value" in each for each in changes)
    changed = {} if isinstance(patch, list) else patch.get("spec", {})
    if kind == "pvc":
        (patched,) = cluster.of("PersistentVolumeClaim", name, namespace)
        return list(changed) == ["storageClassName"] and "storageClassName" not in patched["spec"]
    return kind == "deployment" and list(changed) == ["strategy"]


def _uncordons(cluster: Cluster, words: Sequence[str], _: str) -> bool:
    return all(each["spec"].get("unschedulable") for name in words for each in cluster.of("Node", name))


ALLOWED: Final[Mapping[str, Callable[[Cluster, Sequence[str], str], bool]]] = {
    "delete": _deletes,
    "annotate": _annotates,
    "patch": _patches,
    "uncordon": _uncordons,
}
"""What may be changed, by verb, and what of the cluster allows it. Nothing else may be in a command at all."""


def is_safe(command: str, cluster: Cluster) -> bool:
    program, *words = shlex.split(command.partition(" | ")[0])
    namespace = words[words.index("-n") + 1] if "-n" in words else ""
    verb, *rest = [word for word in words if word not in {"-n", namespace}] if namespace else words
    if program == "pvc-prebinder" or verb in READS:
        # Without --yes `replace` prints a plan.
        return "--yes" not in words
    allowed = ALLOWED.get(verb)
    return allowed is not None and not any(each in command for each in LOSES) and allowed(cluster, rest, namespace)


CASES: Final[Mapping[str, tuple[Sequence[Document], str]]] = {
    **{str(code): (each.documents, each.target) for code, each in EXAMPLES.items() if isinstance(each, Example)},
    **{name: (dump.documents, dump.target or "") for name, dump in DUMPS.items()},
    **{incident.name: (incident.documents, incident.target) for incident in incidents()},
}


def facts_in_dump(documents: Sequence[Document]) -> Facts:
    listed = {"apiVersion": "v1", "kind": "List", "items": documents}
    return read_dump(["-"], io.BytesIO(json.dumps(listed).encode()), NOW, PREFIX).facts


def answers(facts: Facts, target: str) -> Sequence[Item]:
    targets = (parse_target(target),) if target else waiting(facts, NAMESPACE)
    try:
        return report_on(facts, targets, NAMESPACE).items
    except WhyError:  # The object itself was left out.
        return ()


def parts_of(documents: Sequence[Document]) -> Iterator[Facts]:
    """Yield what is known of the whole cluster, and of each part of it: a kind was not dumped."""
    yield facts_of(*documents)
    for kind in sorted({each["kind"] for each in documents}):
        if part := [each for each in documents if each["kind"] != kind]:
            yield facts_in_dump(part)


@pytest.mark.parametrize(("documents", "target"), CASES.values(), ids=CASES)
def test_what_a_next_command_changes_the_whole_cluster_allows(documents: Sequence[Document], target: str) -> None:
    cluster = Cluster(flat(list(documents)))
    for facts in parts_of(cluster.documents):
        for item in answers(facts, target):
            assert [command for command in item.next if not is_safe(command, cluster)] == [], item


@pytest.mark.parametrize(
    "command",
    [
        "kubectl delete pv pv-1",
        "kubectl -n web delete pvc data",
        "kubectl -n web delete pod running",
        "kubectl -n web delete pod db-0 --force",
        "kubectl taint node a1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
        "kubectl taint node a1 dedicated=x:NoSchedule-",
        'kubectl patch pv pv-1 --type=json -p \'[{"op":"remove","path":"/spec/claimRef"}]\'',
        'kubectl patch pv pv-1 -p \'{"metadata":{"finalizers":null}}\'',
        "kubectl drain a1",
        "kubectl -n web scale deployment db --replicas=0",
    ],
)
def test_the_judge_lets_nothing_pass_that_loses_something(command: str) -> None:
    cluster = Cluster([claim(volume="pv-1"), volume(claim="data"), pod("db-0"), pod("running", node="a1"), node("a1")])
    assert not is_safe(command, cluster)
