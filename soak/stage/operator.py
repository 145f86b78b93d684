"""A person who gives pods other volumes for lost ones, with `pvc-prebinder replace` and the documented rights."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from devcluster.cluster import DevCluster
from devcluster.credentials import kubeconfig
from soak.stage.client import Client, Document
from soak.terrain import NAMESPACE

ACCOUNT: Final = "operator"
PATIENCE: Final = 15
"""Seconds for which the command waits for others after each step."""
_READ: Final = ("get", "list", "watch")
_RULES: Final[list[Document]] = [
    {
        "apiGroups": [""],
        "resources": ["namespaces", "pods", "nodes", "persistentvolumeclaims", "persistentvolumes"],
        "verbs": [*_READ],
    },
    {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": [*_READ, "patch"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["*"], "verbs": [*_READ]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": [*_READ]},
    {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["delete"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
]
"""Those that docs/replace.md lists."""


class Operator:
    """Runs the command; what it prints is appended to `log`."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self._kubeconfig, self._log = kubeconfig, log

    async def replace(self, pod: str, *, killed_after: float | None = None) -> int:
        """Replace the lost volumes of a pod; return the exit code, of a command that was killed the negative signal."""
        command = [sys.executable, "-m", "prebinder.cli", "replace", f"pod/{pod}", "-n", NAMESPACE, "--yes"]
        flags = [f"--kubeconfig={self._kubeconfig}", f"--timeout={PATIENCE}"]
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(*command, *flags, stdout=log, stderr=log)
            with suppress(TimeoutError):
                return await asyncio.wait_for(process.wait(), killed_after)
            with suppress(ProcessLookupError):
                process.kill()
            return await process.wait()

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""


async def appointed(cluster: DevCluster, client: Client, log: Path) -> Operator:
    """Create the account with its rights."""
    name = {"name": f"soak-{ACCOUNT}"}
    rights = "rbac.authorization.k8s.io"
    await client.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}},
        {"apiVersion": f"{rights}/v1", "kind": "ClusterRole", "metadata": name, "rules": _RULES},
        {
            "apiVersion": f"{rights}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": name,
            "roleRef": {"apiGroup": rights, "kind": "ClusterRole", **name},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        },
    )
    token = await client.token(NAMESPACE, ACCOUNT)
    authority = cluster.directory / "certificates" / "ca.crt"
    path = cluster.directory / f"{ACCOUNT}.kubeconfig"
    return Operator(kubeconfig.write_for_token(path, cluster.server, authority, token), log)
