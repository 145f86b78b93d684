"""Installs manifests/ with kubectl, and looks at what runs then."""

import json
import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

import yaml

from devcluster.cluster import DevCluster
from tests.scenarios.environment.admin import Admin, Document
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.processes.controller import MANIFESTS, SYSTEM

SECONDS: Final = 240.0
"""Containers start in a second or two, on a machine that is busy in a minute."""

CONFIGURATION: Final = {
    "apiVersion": "config.pvc-prebinder/v1alpha1",
    "kind": "ControllerConfiguration",
    "binding": {"mode": "annotate"},
    "health": {"quarantine": True},
    # All of a class may be held: stories have few volumes.
    "holds": {"enabled": True, "maxShare": 1},
    "logging": {"format": "json"},
}
CONTROLLER: Final = "app.kubernetes.io/part-of=pvc-prebinder,app.kubernetes.io/component=controller"
COME_AND_GO: Final = {"events", "events.events.k8s.io", "leases.coordination.k8s.io"}
"""Recorded by the cluster about itself, at any time."""
SCHEDULING: Final = ("extender", "scheduler", "second-kube-scheduler")
COMPONENTS: Final = ("complete", "holds", "scheduling-gate", "gate-policy")
_numbers: Final = count(1)


async def install(cluster: DevCluster, components: Sequence[str] = COMPONENTS) -> Path:
    """`kubectl apply -k` an overlay of base with these components; return it when all of it is ready."""
    overlay = write_overlay(cluster.directory, components)
    await cluster.run_kubectl("apply", "-k", str(overlay))
    await rolled_out(cluster, "deployment/pvc-prebinder")
    return overlay


async def ensure_installed(cluster: DevCluster) -> None:
    """Install base, unless it is there: a story may have removed it."""
    if not await is_installed(cluster):
        await install(cluster)


async def is_installed(cluster: DevCluster) -> bool:
    return bool(await cluster.run_kubectl("get", "namespace", SYSTEM, "--ignore-not-found", "--output", "name"))


async def remove(cluster: DevCluster) -> None:
    """Do what manifests/uninstall/kustomization.yaml says, in its order."""
    overlay = str(write_overlay(cluster.directory, (*COMPONENTS, *SCHEDULING)))
    await undo_writes(cluster)
    await cluster.run_kubectl("delete", "-k", overlay, "--ignore-not-found", f"--timeout={SECONDS:.0f}s")


async def undo_writes(cluster: DevCluster) -> None:
    """Stop what runs and remove what it wrote, by the Job: after this nothing but the installation itself is left."""
    job, timeout = "job/pvc-prebinder-uninstall", f"--timeout={SECONDS:.0f}s"
    await cluster.run_kubectl("delete", "mutatingadmissionpolicybinding", "pvc-prebinder-gate", "--ignore-not-found")
    await cluster.run_kubectl("-n", SYSTEM, "scale", "deployment", "--all", "--replicas=0")
    ours = "app.kubernetes.io/part-of=pvc-prebinder"
    await cluster.run_kubectl("-n", SYSTEM, "wait", "--for=delete", "pod", "--selector", ours, timeout)
    uninstall = str(MANIFESTS / "uninstall")
    await cluster.run_kubectl("apply", "-k", uninstall)
    await cluster.run_kubectl("-n", SYSTEM, "wait", "--for=condition=complete", job, timeout)
    await cluster.run_kubectl("delete", "-k", uninstall, timeout)


def write_overlay(directory: Path, components: Sequence[str]) -> Path:
    overlay = directory / f"installation-{next(_numbers)}"
    overlay.mkdir()
    (overlay / "config.yaml").write_text(yaml.safe_dump(CONFIGURATION))
    # kustomize takes directories by relative paths only.
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS / "base", overlay)],
        "components": [os.path.relpath(MANIFESTS / "components" / name, overlay) for name in components],
        "configMapGenerator": [
            {
                "name": "pvc-prebinder-config",
                "namespace": SYSTEM,
                "behavior": "replace",
                "files": ["config.yaml"],
            }
        ],
    }
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return overlay


def with_configuration(overlay: Path, name: str, content: Document) -> Path:
    """Write an overlay of this one in which a component's ConfigMap has that config.yaml; kustomize replaces what is
    in components by a further kustomization only.
    """
    above = overlay.with_name(f"{overlay.name}-{name}")
    above.mkdir()
    (above / "config.yaml").write_text(yaml.safe_dump(content))
    generated = {"name": name, "namespace": SYSTEM, "behavior": "replace", "files": ["config.yaml"]}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"../{overlay.name}"],
        "configMapGenerator": [generated],
    }
    (above / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return above


async def rolled_out(cluster: DevCluster, what: str, namespace: str = SYSTEM) -> None:
    await cluster.run_kubectl("-n", namespace, "rollout", "status", what, f"--timeout={SECONDS:.0f}s")


async def controller_pods(cluster: DevCluster) -> dict[str, Document]:
    """Return the controller's pods by name, those on their way out left out."""
    answer = await cluster.run_kubectl("-n", SYSTEM, "get", "pods", "--selector", CONTROLLER, "--output", "json")
    return {
        pod["metadata"]["name"]: pod
        for pod in json.loads(answer)["items"]
        if "deletionTimestamp" not in pod["metadata"]
    }


async def leader(admin: Admin) -> str:
    """Return the name of the pod that holds the Lease; wait for one that does."""
    lease = await eventually(
        lambda: admin.find("Lease", "pvc-prebinder", SYSTEM),
        lambda lease: lease and lease["spec"].get("holderIdentity"),
        "somebody holds the Lease",
        SECONDS,
    )
    assert lease is not None
    name: str = lease["spec"]["holderIdentity"].rpartition("_")[0]
    return name


async def everything(cluster: DevCluster) -> set[str]:
    """Return kind, namespace and name of every object in the cluster, but for those of stories."""
    resources = (await cluster.run_kubectl("api-resources", "--verbs=list", "--output", "name")).split()
    kinds = ",".join(each for each in resources if each not in COME_AND_GO)
    columns = "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name"
    shown = await cluster.run_kubectl("get", kinds, "--all-namespaces", "--no-headers", "--output", columns)
    return {" ".join(line.split()) for line in shown.splitlines() if "story-" not in line}
