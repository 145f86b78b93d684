"""`pvc-prebinder simulate` on what the documented kubectl command prints about a real cluster."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from devcluster.control_plane.nodes import NodeSpec
from tests.command_process import command
from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import ZONE, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

DOCUMENTED = Path(__file__).parents[3] / "docs" / "simulator.md"
STORAGE = "storage.k8s.io/v1"


def pod(world: World, name: str, *claims: str, cpu: str = "1", **spec: Any) -> Document:
    """A pod for the story's own nodes."""
    own = {"nodeSelector": {"story": world.namespace}, "tolerations": [{"operator": "Exists"}]}
    made = documents.pod(world.namespace, name, documents.pod_spec(claims, extra={**own, **spec}))
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return made


def daemon_set(world: World) -> Document:
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": pod(world, "agent", cpu="100m")["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    metadata = {"namespace": world.namespace, "name": "agent"}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}


async def static_pod(world: World, node: str) -> Document:
    """What a kubelet shows of a pod that it has from a file."""
    uid = (await world.admin.get("Node", node))["metadata"]["uid"]
    made = pod(world, f"static-{node}", cpu="100m", nodeName=node)
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
    made["metadata"] |= {"annotations": {"kubernetes.io/config.mirror": "1"}, "ownerReferences": [owner]}
    return made


async def claim_with_capacity(world: World) -> None:
    """Create a claim of a class whose driver has published how much storage it can still make in zone-b."""
    driver = world.name("driver.example")
    storage_class = await world.storage_class(None, "made", provisioner=driver)
    spec = {"storageCapacity": True}
    await world.admin.create({"apiVersion": STORAGE, "kind": "CSIDriver", "metadata": {"name": driver}, "spec": spec})
    capacity = {
        "storageClassName": storage_class,
        "capacity": "10Gi",
        "nodeTopology": {"matchLabels": {ZONE: "zone-b"}},
    }
    metadata = {"namespace": world.namespace, "name": "zone-b"}
    await world.admin.create(
        {"apiVersion": STORAGE, "kind": "CSIStorageCapacity", "metadata": metadata, **capacity},
        documents.claim(world.namespace, "made", claim_spec(storage_class)),
    )


async def lay_out(world: World, first: str, second: str) -> str:
    """Two nodes in two zones with what runs on them, and pods that wait, one too many. Return the volume in use."""
    labels, taints = {"story": world.namespace}, ({"key": world.namespace, "effect": "NoSchedule"},)
    await world.cluster.add_nodes(
        [
            NodeSpec(node, zone, cpu="4", labels=labels, taints=taints)
            for node, zone in ((first, "zone-a"), (second, "zone-b"))
        ]
    )
    disks = await world.storage_class(None)
    (volume,) = await world.volumes(disks, world.volume("pv", disks, zone="zone-a"))
    await claim_with_capacity(world)
    await world.admin.create(documents.claim(world.namespace, "data", claim_spec(disks)))
    await world.admin.create(pod(world, "db", "data"), pod(world, "app", nodeName=first))
    await world.admin.create(await static_pod(world, first))
    await world.cluster.run_kubectl("apply", "-f", "-", given=yaml.safe_dump(daemon_set(world)))
    nobody = {"schedulerName": "nobody.example"}
    large = (pod(world, f"large-{number}", cpu="3500m", **nobody) for number in range(2))
    await world.admin.create(pod(world, "needs", "made", cpu="10m", **nobody), *large)
    await world.all_run("db", "app")

    async def agents() -> int:
        pods = await world.pods()
        return sum(name.startswith("agent-") and bool(pod["spec"].get("nodeName")) for name, pod in pods.items())

    await eventually(agents, (2).__eq__, "the DaemonSet's pods are on both nodes")
    return volume


async def test_a_dump_of_a_real_cluster_answers_what_if(own_world: World, tmp_path: Path) -> None:
    first, second = own_world.name("first"), own_world.name("second")
    volume = await lay_out(own_world, first, second)
    kubectl = re.search(r"^kubectl (get .*) > dump\.json$", DOCUMENTED.read_text(), re.MULTILINE)
    assert kubectl is not None
    dump, trace = tmp_path / "dump.json", tmp_path / "trace"
    dump.write_text(await own_world.cluster.run_kubectl(*kubectl[1].split()))

    async def simulated(*flags: str) -> Any:
        code, out, errors = await command("simulate", "-f", str(dump), "-o", "json", *flags)
        # 3: some pod found no place.
        assert code in {0, 3}, errors
        return json.loads(out)

    report = await simulated("--drain", first, "--trace", str(trace))
    assert abs(datetime.fromisoformat(report["now"]) - datetime.now(UTC)) < timedelta(hours=1)
    assert [limit for limit in report["limits"] if own_world.namespace in limit] == []
    # Neither the DaemonSet's pod nor the static one leaves a node that is drained.
    assert report["whatIf"]["displaced"] == 2
    header, *entries = map(json.loads, trace.read_text().splitlines())
    assert header == {"apiVersion": "pvc-prebinder/v1alpha1", "kind": "SimulationTrace"}
    key = f"{own_world.namespace}/needs"
    (placed,) = [entry for entry in entries if entry["change"] == "place" and entry["pod"] == key]
    assert (placed["node"], placed["made"]) == (second, [f"{own_world.namespace}/made"])

    report = await simulated("--unhealthy", f"pv/{volume}")
    assert report["whatIf"]["withoutData"] == [f"{own_world.namespace}/db"]
    report = await simulated("--nodes-needed", "--node-like", second)
    assert set(report["nodesNeeded"]["like"]) == {second}
    await own_world.cluster.run_kubectl("delete", "daemonset", "agent", "-n", own_world.namespace, "--wait=false")
    await own_world.admin.delete("CSIDriver", own_world.name("driver.example"))
