"""The real command `pvc-prebinder csi-agent` as a process, with the rights of manifests/components/csi-agent only."""

import os
import sys
from itertools import count
from pathlib import Path
from typing import Any, Final

import yaml

from devcluster.cluster import DevCluster
from devcluster.driver.process import Driver
from devcluster.processes.ports import LOOPBACK, free_ports
from devcluster.processes.probes import answers_ok
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.drivers import endpoint_flag
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import MANIFESTS, Controller

DRIVERS_ACCOUNT: Final = "csi-controller"
COMPONENT: Final = MANIFESTS / "components" / "csi-agent"
_numbers: Final = count(1)


def driver_documents(namespace: str, driver: str) -> list[Document]:
    """The user's files: the driver's Deployment, and the three values that the component needs."""
    pod: dict[str, Any] = {
        "serviceAccountName": DRIVERS_ACCOUNT,
        "containers": [{"name": "driver", "image": "driver:1"}],
        "volumes": [{"name": "plugin-dir", "emptyDir": {}}],
    }
    labels = {"app": "csi-controller"}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "csi-controller", "namespace": namespace},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "csi-agent", "annotations": {"config.kubernetes.io/local-config": "true"}},
            "data": {"driver": driver, "socketVolume": "plugin-dir", "socketFile": "driver.sock"},
        },
    ]


def write_overlay(directory: Path, namespace: str, driver: str, *beside: str) -> None:
    """Write the kustomization from docs/csi-agent.md, with other components in addition to the agent's."""
    directory.mkdir()
    (directory / "driver.yaml").write_text(yaml.safe_dump_all(driver_documents(namespace, driver)))
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["driver.yaml"],
        "components": [
            os.path.relpath(COMPONENT.parent / name, directory.resolve()) for name in (COMPONENT.name, *beside)
        ],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))


async def agent_account(world: World, driver: str, *beside: str) -> Path:
    """Apply what the component grants to the driver's ServiceAccount; return a kubeconfig of that account."""
    cluster = world.cluster
    overlay = cluster.directory / f"agent-overlay-{next(_numbers)}"
    write_overlay(overlay, world.namespace, driver, *beside)
    built = list(yaml.safe_load_all(await cluster.run_kubectl("kustomize", str(overlay))))
    who = {"name": DRIVERS_ACCOUNT, "namespace": world.namespace}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": who}
    kept = [account, *(document for document in built if document["kind"] != "Deployment")]
    await cluster.run_kubectl("apply", "-f", "-", given=yaml.safe_dump_all(kept))
    return await cluster.kubeconfig_for_service_account(world.namespace, DRIVERS_ACCOUNT)


async def start_agent(world: World, driver: Driver, kubeconfig: Path, *flags: str) -> Controller:
    """Start an agent of this driver, which probes its volumes every second."""
    cluster: DevCluster = world.cluster
    health, metrics = (f"{LOOPBACK}:{port}" for port in free_ports(2))
    command: list[str | Path] = [sys.executable, "-m", "prebinder.cli", "csi-agent", f"--kubeconfig={kubeconfig}"]
    command += [endpoint_flag(driver), "--health-sweep-interval=1s", f"--annotation-prefix={world.prefix}"]
    command += [f"--lease-namespace={world.namespace}"]
    command += [f"--metrics-bind-address={metrics}", f"--health-bind-address={health}", *flags]

    async def ready() -> bool:
        return await answers_ok(f"http://{health}/readyz")

    component = await cluster.start_component(f"agent-{next(_numbers)}", command, ready)
    return Controller(component, health, metrics)
