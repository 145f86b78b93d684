"""CSI drivers as processes beside the cluster: the mock of Kubernetes' own tests, and our directory-backed one."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.processes.component import Component, ProcessOwner
from devcluster.processes.probes import accepts


class Driver(Component):
    """A CSI driver that serves on a unix socket."""

    def __init__(
        self, driver_name: str, command: list[str | Path], *, owner: ProcessOwner, directory: Path, socket: Path
    ) -> None:
        async def probe() -> bool:
            return await accepts(str(socket))

        super().__init__(f"driver-{driver_name}", command, owner=owner, directory=directory, probe=probe)
        self.driver_name = driver_name
        self.socket = socket

    @property
    def endpoint(self) -> str:
        """The address in the form that `--csi-endpoint NAME=ADDRESS` takes."""
        return f"unix://{self.socket}"


def mock_driver(binary: Path, name: str, volumes: int, owner: ProcessOwner, directory: Path) -> Driver:
    """Return the mock driver, not started; it has volumes with ids "1" to that number (at least 3)."""
    socket = directory / f"{name}.sock"
    command: list[str | Path] = [binary, f"--socket={socket}", f"--name={name}", f"--volumes={volumes}"]
    return Driver(name, command, owner=owner, directory=directory, socket=socket)


def directory_driver(
    name: str,
    root: Path,
    topology: Mapping[str, str],
    owner: ProcessOwner,
    directory: Path,
    flags: Sequence[str] = (),
) -> Driver:
    """Return the driver whose volumes are directories below `root`, not started; `flags` are more of its flags."""
    socket = directory / f"{name}.sock"
    command: list[str | Path] = [sys.executable, "-m", "devcluster.driver"]
    command += ["--socket", socket, "--root", root, "--name", name, *flags]
    for key, value in topology.items():
        command += ["--topology", f"{key}={value}"]
    return Driver(name, command, owner=owner, directory=directory, socket=socket)
