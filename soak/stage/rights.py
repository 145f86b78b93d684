"""The ServiceAccounts and roles of manifests/, as shipped: `kubectl apply -k` without the Deployments."""

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import yaml

from devcluster.cluster import DevCluster
from soak.stage.client import Document

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
COMPONENTS: Final = ("complete", "holds", "scheduling-gate", "scheduler")
LIMITS: Final = "account-limits"
"""The component with the policies that limit the ServiceAccounts."""
SYSTEM: Final = "pvc-prebinder-system"
_LEFT_OUT: Final = frozenset({"Deployment"})
"""There are no images here; the processes run on this machine."""


async def apply(cluster: DevCluster, components: Sequence[str]) -> None:
    """Apply manifests/base with the components. Raises ClusterError with kubectl's output."""
    await cluster.run_kubectl("apply", "-f", "-", given=yaml.safe_dump_all(await rendered(cluster, components)))


async def rendered(cluster: DevCluster, components: Sequence[str]) -> list[Document]:
    """Return what kustomize makes of manifests/base with these components, without Deployments."""
    overlay = _write_overlay(cluster.directory, components)
    built = yaml.safe_load_all(await cluster.run_kubectl("kustomize", str(overlay)))
    return [document for document in built if document["kind"] not in _LEFT_OUT]


def _write_overlay(directory: Path, components: Sequence[str]) -> Path:
    overlay = Path(mkdtemp(prefix="overlay-", dir=directory))
    # kustomize takes directories by relative paths only.
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS / "base", overlay)],
        "components": [os.path.relpath(MANIFESTS / "components" / name, overlay) for name in components],
    }
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    return overlay
