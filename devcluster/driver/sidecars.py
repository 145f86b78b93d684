"""The sidecars of CSI drivers as processes beside a cluster: external-provisioner and its siblings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from devcluster.driver.process import Driver
from devcluster.processes.component import Component, ProcessOwner
from devcluster.processes.ports import LOOPBACK, free_ports
from devcluster.processes.probes import answers_ok

NAMESPACE: Final = "kube-system"
"""Where they hold their Leases and publish capacities."""

_FLAGS: Final = (
    "--leader-election",
    f"--leader-election-namespace={NAMESPACE}",
    # So that one which is started again soon holds the Lease that the last one did not release.
    "--leader-election-lease-duration=3s",
    "--leader-election-renew-deadline=2s",
    "--leader-election-retry-period=500ms",
    "--retry-interval-max=2s",
    "--kube-api-qps=100",
    "--kube-api-burst=200",
)


def sidecar(
    binary: Path, flags: Sequence[str], driver: Driver | None, kubeconfig: Path, owner: ProcessOwner, directory: Path
) -> Component:
    """Return a sidecar of the driver, not started. It is ready when it serves metrics, before it holds its Lease.

    As in a pod, it ends when it loses the connection to its driver.
    """
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    command: list[str | Path] = [binary, f"--kubeconfig={kubeconfig}", f"--http-endpoint={address}", *_FLAGS, *flags]
    name = binary.name
    if driver is not None:
        command.append(f"--csi-address={driver.socket}")
        name = f"{name}-{driver.driver_name}"

    async def probe() -> bool:
        return await answers_ok(f"http://{address}/metrics")

    return Component(name, command, owner=owner, directory=directory, probe=probe, environment={"NAMESPACE": NAMESPACE})
