"""Karpenter with its provider kwok as a process beside a cluster: four zones, two sizes of instances."""

import asyncio
import json
from typing import Any, Final

import yaml

from devcluster.build.binaries import ensure
from devcluster.build.modules import KARPENTER
from devcluster.cluster import DevCluster
from tests.scenarios.environment.admin import Admin, Document
from tests.scenarios.environment.documents import ZONE
from tests.scenarios.environment.waiting import eventually

ZONES: Final = ("zone-a", "zone-b", "zone-c", "zone-d")
LAUNCH_SECONDS: Final = 60
_CAPACITY: Final = "karpenter.sh/capacity-type"
_ON_DEMAND: Final = "on-demand"
WHEN_EMPTY: Final = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}
AT_ONCE: Final = {
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "consolidateAfter": "0s",
    "budgets": [{"nodes": "100%"}],
}
"""Nodes are removed as soon as others have room for their pods, any number of them together."""


async def start_karpenter(cluster: DevCluster, admin: Admin) -> None:
    """Install its definitions, start it, and create its class of nodes. They are launched for NodePools."""
    binary = (await asyncio.to_thread(ensure, [KARPENTER]))["karpenter"]
    process = await asyncio.create_subprocess_exec(binary, "crds", stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    definitions = [each for each in yaml.safe_load_all(printed) if each]
    await admin.create(*definitions)
    await eventually(lambda: admin.list("CustomResourceDefinition"), _all_served, "Karpenter's kinds are served")
    types = cluster.directory / "instance-types.json"
    types.write_text(json.dumps([_instance_type(cpu) for cpu in (1, 4)]), encoding="utf-8")
    command = ["env", f"KUBECONFIG={cluster.kubeconfig}", "DISABLE_LEADER_ELECTION=true", str(binary)]
    await cluster.start_component("karpenter", [*command, f"--instance-types-file-path={types}"], _at_once)
    await admin.create(
        {
            "apiVersion": "karpenter.kwok.sh/v1alpha1",
            "kind": "KWOKNodeClass",
            "metadata": {"name": "default"},
            "spec": {"nodeRegistrationDelay": f"{LAUNCH_SECONDS}s"},
        }
    )


async def add_node_pool(
    admin: Admin, name: str, zones: tuple[str, ...] = ZONES, disruption: Document = WHEN_EMPTY, **limits: str
) -> None:
    """Create a NodePool that adds nodes in these zones, and wait until Karpenter calls it Ready."""
    template = {
        "requirements": [
            {"key": ZONE, "operator": "In", "values": list(zones)},
            {"key": _CAPACITY, "operator": "In", "values": [_ON_DEMAND]},
        ],
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
    }
    spec: Document = {"template": {"spec": template}, "limits": limits, "disruption": disruption}
    await admin.create({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec})
    await eventually(lambda: admin.get("NodePool", name), _is_ready, "the NodePool is ready")


async def delete_node_pool(admin: Admin, name: str) -> None:
    """Delete a NodePool with its nodes, and wait until they are gone."""
    await admin.delete("NodePool", name)
    await eventually(lambda: admin.list("NodeClaim"), lambda claims: not claims, "its nodes are gone", 120)


async def _at_once() -> bool:
    return True


def _holds(document: Document, condition: str) -> bool:
    conditions = document.get("status", {}).get("conditions") or []
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


def _is_ready(pool: Document) -> bool:
    return _holds(pool, "Ready")


def _all_served(definitions: list[Document]) -> bool:
    own = [each for each in definitions if "karpenter" in each["spec"]["group"]]
    return len(own) == 4 and all(_holds(each, "Established") for each in own)


def _instance_type(cpu: int) -> Document:
    def offering(zone: str) -> dict[str, Any]:
        labels = {_CAPACITY: _ON_DEMAND, ZONE: zone}
        requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
        return {"Price": cpu * 0.02, "Available": True, "Requirements": requirements}

    return {
        "name": f"c-{cpu}x-amd64-linux",
        "offerings": [offering(zone) for zone in ZONES],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": str(cpu), "memory": f"{2 * cpu}Gi", "ephemeral-storage": "20Gi", "pods": "110"},
    }
