"""Which pods run a process that would write again what `uninstall` removes."""

from typing import Any

import msgspec
import pytest

from kube.client.api import KubeApi
from prebinder.uninstall.running_pods import RunningPod, running, writers
from prebinder.uninstall.traces import Part
from tests.kube.scripted_transport import ScriptedTransport, answer, listing
from tests.manifests.test_rendering import agent
from tests.manifests.tools import MANIFESTS, Document, built, overlay_of_base

OURS = {"app.kubernetes.io/name": "pvc-prebinder", "app.kubernetes.io/component": "controller"}


def pod(*containers: Document, name: str = "app-1", phase: str = "Running", **metadata: Any) -> Document:
    spec: Document = {"containers": [{"name": f"c{number}", **each} for number, each in enumerate(containers)]}
    if account := metadata.pop("account", None):
        spec["serviceAccountName"] = account
    return {
        "metadata": {"name": name, "namespace": "storage", "uid": "u", "resourceVersion": "1", **metadata},
        "spec": spec,
        "status": {"phase": phase},
    }


def commands(document: Document) -> list[str]:
    return [writer.command for writer in writers(msgspec.convert(document, RunningPod))]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(pod({"image": "pvc-prebinder:0.1.0", "args": ["controller"]}), ["controller"], id="image"),
        pytest.param(
            pod({"image": "reg.example:5000/a/pvc-prebinder@sha256:0", "args": ["scheduler", "--name=a"]}),
            ["scheduler"],
            id="image-of-a-registry",
        ),
        pytest.param(
            pod({"image": "ours:1", "command": ["/usr/bin/pvc-prebinder"], "args": ["controller"]}),
            ["controller"],
            id="command",
        ),
        pytest.param(
            pod(
                {"image": "python", "command": ["sh", "-c", "python -m prebinder.cli controller --leader-elect=false"]}
            ),
            ["controller"],
            id="shell",
        ),
        pytest.param(
            pod({"image": "ours:1", "args": ["controller", "--config=/etc/pvc-prebinder/config.yaml"]}),
            ["controller"],
            id="configuration-file",
        ),
        pytest.param(pod({"image": "ours:1", "args": ["controller"]}, labels=OURS), ["controller"], id="labels"),
        pytest.param(pod({"image": "ours:1"}, account="pvc-prebinder-scheduler"), ["scheduler"], id="account-alone"),
        pytest.param(
            pod({"image": "driver:1"}, {"image": "pvc-prebinder:0.1.0", "args": ["csi-agent"]}),
            ["csi-agent"],
            id="beside-a-driver",
        ),
        pytest.param(
            pod({"image": "istio-proxy:1"}, {"image": "pvc-prebinder", "args": ["controller"]}, labels=OURS),
            ["controller"],
            id="once-with-a-sidecar",
        ),
        pytest.param(pod({"image": "pvc-prebinder", "args": ["controller", "--dry-run"]}), [], id="dry-run"),
        pytest.param(pod({"image": "pvc-prebinder", "args": ["extender"]}, labels=OURS), [], id="extender"),
        pytest.param(pod({"image": "pvc-prebinder", "args": ["why", "--serve"]}), [], id="view"),
        pytest.param(
            pod({"image": "pvc-prebinder", "args": ["uninstall", "--lease-namespace=pvc-prebinder-system"]}),
            [],
            id="this-command",
        ),
        pytest.param(pod({"image": "controller:1", "args": ["controller"]}), [], id="another-product"),
        pytest.param(pod({"image": "pvc-prebinder", "args": ["controller"]}, phase="Succeeded"), [], id="ended"),
        pytest.param(
            pod({"image": "pvc-prebinder", "args": ["controller"]}, phase="Pending"), ["controller"], id="soon"
        ),
    ],
)
def test_a_process_that_writes_is_recognised(document: Document, expected: list[str]) -> None:
    assert commands(document) == expected


def template_pods(documents: list[Document]) -> dict[str, list[str]]:
    """Return the commands by Deployment or Job."""
    return {
        each["metadata"]["name"]: commands(pod_of(each)) for each in documents if each["kind"] in {"Deployment", "Job"}
    }


def pod_of(workload: Document) -> Document:
    template = workload["spec"]["template"]
    metadata = {"name": "a", "namespace": "b"} | template.get("metadata", {})
    return {"metadata": metadata, "spec": template["spec"]}


def test_every_deployment_of_the_manifests_is_recognised() -> None:
    documents = [*overlay_of_base(("extender", "scheduler", "view")), *agent(), *built(MANIFESTS / "uninstall")]
    assert template_pods(documents) == {
        "pvc-prebinder": ["controller"],
        "pvc-prebinder-extender": [],
        "pvc-prebinder-scheduler": ["scheduler"],
        "pvc-prebinder-view": [],
        "csi-controller": ["csi-agent"],
        "pvc-prebinder-uninstall": [],
    }
    assert template_pods(built(MANIFESTS / "overlays" / "try")) == {"pvc-prebinder": []}


def owned(kind: str, name: str) -> Document:
    return {"ownerReferences": [{"apiVersion": "a/v1", "kind": kind, "name": name, "uid": "u", "controller": True}]}


@pytest.mark.parametrize(
    ("command", "metadata", "expected"),
    [
        pytest.param(
            "controller",
            {"labels": {"pod-template-hash": "6f7c"}} | owned("ReplicaSet", "pvc-prebinder-6f7c"),
            ". Scale what it belongs to: kubectl -n storage scale deployment/pvc-prebinder --replicas=0",
            id="deployment",
        ),
        pytest.param(
            "scheduler",
            owned("StatefulSet", "db"),
            ". Scale what it belongs to: kubectl -n storage scale statefulset/db --replicas=0",
            id="set",
        ),
        pytest.param(
            "controller",
            owned("DaemonSet", "all"),
            ". Delete what it belongs to: kubectl -n storage delete daemonset/all",
            id="daemon",
        ),
        pytest.param("controller", {}, ". Delete it: kubectl -n storage delete pod app-1", id="pod"),
        pytest.param(
            "csi-agent",
            owned("DaemonSet", "driver"),
            ". Remove that container from daemonset/driver (docs/operate.md)",
            id="agent",
        ),
        pytest.param(
            "controller",
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            " and is being deleted. Run this command again when it is gone",
            id="ending",
        ),
    ],
)
def test_the_message_names_the_pod_and_the_next_step(command: str, metadata: Document, expected: str) -> None:
    (writer,) = writers(msgspec.convert(pod({"image": "pvc-prebinder", "args": [command]}, **metadata), RunningPod))
    assert str(writer) == f"pod storage/app-1 runs `pvc-prebinder {command}`{expected}"


@pytest.mark.parametrize(
    ("parts", "expected"), [(tuple(Part), ["controller", "csi-agent"]), ((Part.GATES,), ["controller"])], ids=str
)
async def test_an_agent_counts_where_health_is_removed(parts: tuple[Part, ...], expected: list[str]) -> None:
    items = [pod({"image": "pvc-prebinder", "args": [word]}) for word in ("controller", "csi-agent")]
    api = KubeApi(ScriptedTransport(lambda _: answer(200, listing(1, *items))))
    assert [writer.command for writer in await running(api, parts)] == expected
