"""The ServiceAccounts and roles of manifests/, as shipped: `kubectl apply -k` without the Deployments."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from devcluster.cluster import DevCluster
from devcluster.errors import ClusterError

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
COMPONENTS: Final = ("complete", "scheduling-gate", "scheduler")
LIMITS: Final = "account-limits"
"""The component with the policies that hold the ServiceAccounts to what they need."""
SYSTEM: Final = "pvc-prebinder-system"
_LEFT_OUT: Final = frozenset({"Deployment"})
"""There are no images here; the processes run on this machine."""


async def apply(cluster: DevCluster, components: Sequence[str]) -> None:
    """Apply manifests/base with the components. Raises ClusterError with what kubectl said."""
    overlay = _write_overlay(cluster.directory, components)
    built = yaml.safe_load_all(await _kubectl(cluster, "kustomize", str(overlay)))
    kept = [document for document in built if document["kind"] not in _LEFT_OUT]
    await _kubectl(cluster, "apply", "-f", "-", given=yaml.safe_dump_all(kept))


def _write_overlay(directory: Path, components: Sequence[str]) -> Path:
    overlay = directory / "overlay"
    overlay.mkdir()
    # kustomize takes directories by relative paths only.
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS / "base", overlay)],
        "components": [os.path.relpath(MANIFESTS / "components" / name, overlay) for name in components],
    }
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    return overlay


async def _kubectl(cluster: DevCluster, *arguments: str, given: str = "") -> str:
    process = await asyncio.create_subprocess_exec(
        cluster.kubectl,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig)},
    )
    out, error = await process.communicate(given.encode())
    if process.returncode != 0:
        raise ClusterError(f"kubectl {' '.join(arguments)}: {error.decode()}")
    return out.decode()
