"""What others collect of a cluster, in the layout that each tool writes: the same cluster gets the same answer.

The layouts are those of `kubectl cluster-info dump --output-directory` (clusterinfo_dump.go), of `oc adm inspect`,
which must-gather calls, of the plugin kubernetes of sosreport, of troubleshoot's collector clusterResources, and of
the support bundles of Longhorn and Talos, which are zip files. Logs, tables and texts lie between.
"""

import gzip
import json
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.why.documents import (
    DRIVER,
    INSTALLED,
    NAMESPACE,
    NOW,
    SYSTEM_POD,
    Document,
    claim,
    event,
    node,
    pod,
    storage_class,
    volume,
)
from tests.why.dumps.test_partial_dumps import CHANGES
from why.errors import WhyError
from why.explain.answering import report_on
from why.explain.targets import parse_target
from why.facts.facts import Source
from why.reading.dump import read_dump
from why.report.report import Item

VERDICT: Final = "0/2 nodes are available: 1 node(s) had volume node affinity conflict, 1 node(s) were unschedulable."
CLUSTER: Final[list[Document]] = [
    pod("db-0", "data"),
    SYSTEM_POD,
    claim(volume="pv-1"),
    volume(claim="data", zone="a"),
    storage_class(provisioner=DRIVER),
    *INSTALLED,
    node("a1", "a", cordoned=True),
    node("b1", "b"),
    event("Pod", "db-0", "FailedScheduling", VERDICT, reporter="default-scheduler"),
]
PLURALS: Final = {
    "Pod": "pods",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PersistentVolume": "persistentvolumes",
    "StorageClass": "storageclasses",
    "CSIDriver": "csidrivers",
    "CSINode": "csinodes",
    "Node": "nodes",
    "Event": "events",
}
LOG: Final = b'{"level":"error","kind":"Pod","apiVersion":"v1","msg":"no"}\n'
Files = dict[str, bytes]


def of(kind: str, namespace: str = "") -> list[Document]:
    return [
        each for each in CLUSTER if each["kind"] == kind and namespace in {"", each["metadata"].get("namespace", "")}
    ]


def as_list(kind: str, items: list[Document], *, typed: bool = True) -> Document:
    """A list as the API returns it: its items do not say what they are."""
    stripped = [{key: value for key, value in each.items() if key not in {"kind", "apiVersion"}} for each in items]
    api = items[0]["apiVersion"] if items else "v1"
    return {"kind": f"{kind}List", "apiVersion": api, "metadata": {}, "items": stripped if typed else items}


def cluster_info() -> Files:
    """Nodes, and of each namespace its Events and pods: neither claims nor volumes are in it."""
    files = {"nodes.json": as_json(as_list("Node", of("Node")))}
    for namespace in (NAMESPACE, "kube-system"):
        files[f"{namespace}/pods.json"] = as_json(as_list("Pod", of("Pod", namespace)))
        files[f"{namespace}/events.json"] = as_json(as_list("Event", of("Event", namespace)))
        files[f"{namespace}/replication-controllers.json"] = as_json(as_list("ReplicationController", []))
        files[f"{namespace}/db-0/logs.txt"] = b"==== START logs for container main of pod web/db-0 ====\n" + LOG
    return files


def must_gather() -> Files:
    root = "must-gather.local.1/quay-io-openshift-release-dev-sha256-0"
    files: Files = {
        f"{root}/version": b"4.16.0\n",
        f"{root}/timestamp": b"2026-01-02\n",
        f"{root}/event-filter.html": LOG,
    }
    for kind, group in (
        ("Node", "core"),
        ("PersistentVolume", "core"),
        ("StorageClass", "storage.k8s.io"),
        ("CSIDriver", "storage.k8s.io"),
        ("CSINode", "storage.k8s.io"),
    ):
        for each in of(kind):
            path = f"{root}/cluster-scoped-resources/{group}/{PLURALS[kind]}/{each['metadata']['name']}.yaml"
            files[path] = as_yaml(each)
    for namespace in (NAMESPACE, "kube-system"):
        core = f"{root}/namespaces/{namespace}/core"
        for kind in ("Pod", "PersistentVolumeClaim", "Event"):
            files[f"{core}/{PLURALS[kind]}.yaml"] = as_yaml(as_list(kind, of(kind, namespace)))
        for each in of("Pod", namespace):
            name = each["metadata"]["name"]
            files[f"{root}/namespaces/{namespace}/pods/{name}/{name}.yaml"] = as_yaml(each)
            logs = f"{root}/namespaces/{namespace}/pods/{name}/main/main/logs"
            files |= {f"{logs}/current.log": LOG, f"{logs}/previous.log.gz": gzip.compress(LOG)}
    return files


def sosreport() -> Files:
    root = "sosreport-master-0-2026/sos_commands/kubernetes"
    command = "kubectl_--kubeconfig_.etc.kubernetes.admin.conf_get"
    files: Files = {f"{root}/{command}_nodes": b"NAME STATUS\na1 Ready,SchedulingDisabled\n"}
    for kind in ("Node", "PersistentVolume", "StorageClass", "CSIDriver", "CSINode"):
        files[f"{root}/{command}_-o_json_{PLURALS[kind]}"] = as_json(mixed(of(kind)))
    for namespace in (NAMESPACE, "kube-system"):
        for kind in ("Pod", "PersistentVolumeClaim", "Event"):
            path = f"{root}/cluster-info/{namespace}/{command}_-o_json_--namespace_{namespace}_{PLURALS[kind]}"
            files[path] = as_json(mixed(of(kind, namespace)))
    files["sosreport-master-0-2026/var/log/pods/web_db-0/main/0.log"] = LOG
    return files


def troubleshoot() -> Files:
    root = "support-bundle-2026-01-02T12_00_00/cluster-resources"
    bundle = b"apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\n"
    files: Files = {
        f"{root}/pods-errors.json": b"{}\n",
        f"{root}/namespaces.json": as_json(as_list("Namespace", [])),
        f"{root}/auth-cani-list/web.json": b'{"status":{"incomplete":false,"resourceRules":[]}}',
        "support-bundle-2026-01-02T12_00_00/version.yaml": bundle,
        f"{root}/nodes.json": as_json(as_list("Node", of("Node"), typed=False)),
        f"{root}/pvs.json": as_json(as_list("PersistentVolume", of("PersistentVolume"), typed=False)),
        f"{root}/storage-classes.json": as_json(as_list("StorageClass", of("StorageClass"), typed=False)),
        f"{root}/custom-resources/csinodes.json": as_json(as_list("CSINode", of("CSINode"), typed=False)),
        f"{root}/custom-resources/csidrivers.json": as_json(as_list("CSIDriver", of("CSIDriver"), typed=False)),
    }
    for kind, folder in (("Pod", "pods"), ("PersistentVolumeClaim", "pvcs"), ("Event", "events")):
        for namespace in (NAMESPACE, "kube-system"):
            files[f"{root}/{folder}/{namespace}.json"] = as_json(as_list(kind, of(kind, namespace), typed=False))
    return files


def longhorn() -> Files:
    root = "supportbundle_1/yamls"
    files: Files = {"supportbundle_1/logs/longhorn-system/longhorn-manager-x/longhorn-manager.log": LOG}
    for kind in ("Node", "PersistentVolume", "StorageClass", "CSIDriver", "CSINode"):
        files[f"{root}/cluster/kubernetes/{PLURALS[kind]}.yaml"] = as_yaml(as_list(kind, of(kind), typed=False))
    for kind in ("Pod", "PersistentVolumeClaim", "Event"):
        files[f"{root}/namespaced/{NAMESPACE}/kubernetes/{PLURALS[kind]}.yaml"] = as_yaml(as_list(kind, of(kind)))
    return files


def talos() -> Files:
    """`talosctl support`: of the objects only nodes and the pods of the system, in lists that do not say of what."""
    files: Files = {
        "cluster/kubernetesResources/nodes.yaml": untyped(of("Node")),
        "cluster/kubernetesResources/systemPods.yaml": untyped(of("Pod", "kube-system")),
        "10.5.0.2/talosResources/machineconfigs.yaml": b"metadata:\n    namespace: config\nspec: {}\n",
        "10.5.0.2/dmesg.log": LOG,
    }
    return files


def untyped(items: list[Document]) -> bytes:
    """A list as Go's typed clients return it, as YAML."""
    stripped = [{key: value for key, value in each.items() if key not in {"kind", "apiVersion"}} for each in items]
    return yaml.safe_dump({"items": stripped, "metadata": {"resourceVersion": "1"}}).encode()


def mixed(items: list[Document]) -> Document:
    """A list as kubectl prints it: its kind comes last."""
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}


def as_json(document: Document) -> bytes:
    return json.dumps(document, indent=4).encode()


def as_yaml(document: Document) -> bytes:
    return b"---\n" + yaml.safe_dump(document).encode()


WHOLE: Final[Mapping[str, Callable[[], Files]]] = {
    "must-gather": must_gather,
    "sosreport": sosreport,
    "troubleshoot": troubleshoot,
    "longhorn": longhorn,
}


def written(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def answer(*paths: Path) -> Item:
    dump = read_dump([str(path) for path in paths], BytesIO(), NOW)
    (item,) = report_on(dump.facts, (parse_target("pod/db-0"),), NAMESPACE).items
    return item


@pytest.mark.parametrize("layout", WHOLE.values(), ids=WHOLE)
def test_each_layout_that_has_the_objects_gets_the_same_answer(tmp_path: Path, layout: Callable[[], Files]) -> None:
    item = answer(written(tmp_path, layout()))
    assert (item.code, item.next) == ("TopologyConflict", ("kubectl uncordon a1",))


def test_what_kubectl_cluster_info_dump_lacks_is_not_missing_from_the_cluster(tmp_path: Path) -> None:
    """The scheduler's words are the answer, not a claim that is not there."""
    item = answer(written(tmp_path, cluster_info()))
    assert item.code == "TopologyConflict"
    assert VERDICT in " ".join(each.found for each in item.evidence)
    assert {each.resource for each in item.skipped} >= {"persistentvolumeclaims"}


def test_what_talosctl_support_lacks_counts_as_not_read(tmp_path: Path) -> None:
    path = tmp_path / "support.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in talos().items():
            archive.writestr(name, content)
    dump = read_dump([str(path)], BytesIO(), NOW)
    assert set(dump.facts.snapshot.nodes) == {"a1", "b1"}
    assert Source.PODS in dump.facts.read
    assert dump.faults == []
    with pytest.raises(WhyError, match="db-0"):
        answer(path)


def test_a_layout_may_come_as_a_zip_file(tmp_path: Path) -> None:
    path = tmp_path / "supportbundle.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in longhorn().items():
            archive.writestr(name, content)
    item = answer(path)
    assert (item.code, item.next) == ("TopologyConflict", ("kubectl uncordon a1",))


def test_one_layout_completes_another(tmp_path: Path) -> None:
    """Such as a must-gather beside what was fetched later by hand: a kind is read if one of them has it."""
    first = written(tmp_path / "first", cluster_info())
    rest = {path: content for path, content in must_gather().items() if "persistentvolume" in path or "storage" in path}
    item = answer(first, written(tmp_path / "second", rest))
    assert (item.code, item.next) == ("TopologyConflict", ("kubectl uncordon a1",))


@pytest.mark.parametrize("plural", PLURALS.values())
@pytest.mark.parametrize("layout", [must_gather, troubleshoot, sosreport], ids=["yaml", "json", "kubectl"])
def test_what_a_truncated_file_has_lost_is_no_cause(tmp_path: Path, layout: Callable[[], Files], plural: str) -> None:
    short = {"persistentvolumes": "pvs", "persistentvolumeclaims": "pvcs", "storageclasses": "storage-classes"}
    names = (f"{plural}", f"{short.get(plural, plural)}")
    files = {
        path: truncated(content) if any(part in path for part in names) else content
        for path, content in layout().items()
    }
    folder = written(tmp_path, files)
    if plural == "pods":
        with pytest.raises(WhyError, match="db-0"):
            answer(folder)
        return
    item = answer(folder)
    assert item.code in {"TopologyConflict", "Inconclusive"}
    assert not any("delete" in command for command in item.next)  # Uncordoning rests on the node.


def truncated(content: bytes) -> bytes:
    """The file as it is when the disk was full: without its second half, which may end within a word."""
    return content[: len(content) // 2] + b'"'


def test_one_damaged_file_of_a_kind_makes_the_kind_incomplete(tmp_path: Path) -> None:
    """Of two volumes one could not be read: the claim that is bound to it has not lost it."""
    files = must_gather()
    (path,) = [path for path in files if path.endswith("pv-1.yaml")]
    other = as_yaml(volume("pv-2", claim="other", zone="b"))
    files |= {path: truncated(files[path]), path.replace("pv-1", "pv-2"): other}
    item = answer(written(tmp_path, files))
    assert item.code == "TopologyConflict"
    assert not any(CHANGES.search(command) for command in item.next)
    assert ("persistentvolumes", "damaged in the input") in [(each.resource, each.because) for each in item.skipped]
