"""The demo's cluster as a process of its own: control plane, nodes, CSI driver, controller.

It lives as long as its parent holds its standard input open, or, after the word `keep` was sent that way, until
`pvc-prebinder dev devcluster down`. It prints one JSON line for each step and one when all is ready.
"""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TextIO

from demo import scene as demo_scene
from demo.placement import SCHEDULER
from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.nodes import NodeSpec
from devcluster.driver.health import VolumeFault
from devcluster.driver.volumes import break_volume, create_volume
from devcluster.errors import ClusterError
from devcluster.keeper import detach
from devcluster.processes.component import Component
from devcluster.processes.ports import LOOPBACK, free_ports
from devcluster.processes.probes import answers_ok
from kube.rules.quantity import NANO, parse_quantity
from kube.rules.topology import ZONE_LABEL

KEEP: Final = "keep\n"
KUBECTL: Final = "kubectl"
"""As an argument: the cluster's directory has it."""
SWEEP_INTERVAL: Final = "1s"
"""How often the demo's controller probes every volume: often, so that changes are detected soon."""


@dataclass(frozen=True, slots=True)
class Ready:
    """How to reach the stage: paths, and the addresses of the driver and of the controller's metrics.

    `volumes` is the directory that holds the driver's volumes.
    """

    kubeconfig: str
    kubectl: str
    csi_endpoint: str
    volumes: str
    metrics: str
    controller_log: str
    scheduler_log: str


@dataclass(frozen=True, slots=True)
class Step:
    """The current step, in words."""

    doing: str


def read_line(line: str) -> Ready | Step:
    """Read one line of a stage's output; ValueError if it is not one."""
    fields = json.loads(line)
    return Step(**fields) if "doing" in fields else Ready(**fields)


def options(kubectl: bool) -> Options:
    """Return the parts of the demo's cluster; kubectl is for a user who keeps it."""
    return Options(kubectl=kubectl)


async def play(directory: Path, kubectl: bool, keeper: TextIO) -> None:
    """Build the stage, report that it is ready, and stay until told to end; ClusterError if it cannot be built."""
    _say(Step("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok"))
    async with DevCluster(options(kubectl), directory) as cluster:
        _say(Step("adding 6 nodes in 3 zones and a CSI driver with its volumes"))
        await cluster.add_nodes([demo_node(name, zone) for name, zone in demo_scene.node_names()])
        root = cluster.directory / "volumes"
        make_volumes(root)
        driver = await cluster.start_driver(demo_scene.DRIVER, root)
        _say(Step("starting pvc-prebinder controller --mode prebind --quarantine"))
        metrics, health = (f"{LOOPBACK}:{port}" for port in free_ports(2))
        command = [sys.executable, "-m", "prebinder.cli", "controller", f"--kubeconfig={cluster.kubeconfig}"]
        command += ["--mode=prebind", f"--csi-endpoint={demo_scene.DRIVER}={driver.endpoint}", "--no-leader-elect"]
        command += ["--quarantine", f"--health-sweep-interval={SWEEP_INTERVAL}"]
        command += [f"--metrics-bind-address={metrics}", f"--health-bind-address={health}"]
        controller = await cluster.start_component(
            "controller", command, probe=lambda: answers_ok(f"http://{health}/readyz")
        )
        _say(Step(f"starting pvc-prebinder scheduler --name {SCHEDULER}"))
        scheduler = await _start_scheduler(cluster)
        _say(
            Ready(
                kubeconfig=str(cluster.kubeconfig),
                kubectl=str(cluster.kubectl),
                csi_endpoint=driver.endpoint,
                volumes=str(root),
                metrics=f"http://{metrics}/metrics",
                controller_log=str(controller.log_path),
                scheduler_log=str(scheduler.log_path),
            )
        )
        if await asyncio.to_thread(keeper.readline) == KEEP:
            detach(cluster.directory / "stage.log")
            await asyncio.Event().wait()


def demo_node(name: str, zone: str) -> NodeSpec:
    """Return a node. Those of zone-a are large, so that a scheduler that only considers free resources goes there
    first.
    """
    return NodeSpec(name, zone, cpu="64", memory="256Gi") if zone == demo_scene.ZONES[0] else NodeSpec(name, zone)


async def _start_scheduler(cluster: DevCluster) -> Component:
    metrics, health = (f"{LOOPBACK}:{port}" for port in free_ports(2))
    command = [sys.executable, "-m", "prebinder.cli", "scheduler", f"--kubeconfig={cluster.kubeconfig}"]
    command += [f"--name={SCHEDULER}", "--no-leader-elect"]
    command += [f"--metrics-bind-address={metrics}", f"--health-bind-address={health}"]
    return await cluster.start_component("scheduler-ours", command, probe=lambda: answers_ok(f"http://{health}/readyz"))


def make_volumes(root: Path) -> None:
    """Create the driver's side of the scene: directories with their topology, some of them unhealthy."""
    for volume in demo_scene.volumes():
        segment = {ZONE_LABEL: volume.reported_zone}
        create_volume(root, volume.name, parse_quantity(volume.size) // NANO, segment)
        if volume.fault:
            break_volume(root, volume.name, VolumeFault(volume.fault))


def _say(what: Step | Ready) -> None:
    sys.stdout.write(json.dumps(asdict(what)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        asyncio.run(play(Path(sys.argv[1]), sys.argv[2:] == [KUBECTL], sys.stdin))
    except ClusterError as error:
        sys.exit(str(error))
