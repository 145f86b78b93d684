"""A node that runs containers, as one process beside the cluster: killing and starting it is a reboot."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from devcluster.node import archive, images, isolation
from devcluster.node.files import NAME, PAUSE_IMAGE, NodeFiles
from devcluster.processes.component import START_SECONDS, Component, ProcessOwner
from devcluster.processes.ports import LOOPBACK
from devcluster.processes.probes import accepts

_POLL_SECONDS = 0.1

Schedulable = Callable[[str], Awaitable[bool]]
"""Whether pods can be scheduled on the node of that name."""


def relay_outside(files: NodeFiles, port: int, owner: ProcessOwner, directory: Path) -> Component:
    """Return the machine's end of the relay to the API server, not started."""
    script = Path(__file__).with_name("relay.py")
    command = [sys.executable, "-I", "-S", str(script), "outside", str(files.server_socket), LOOPBACK, str(port)]
    return Component(
        "relay", command, owner=owner, directory=directory, probe=lambda: accepts(str(files.server_socket))
    )


class RealNode(Component):
    """Kubelet, containerd and the pods, in namespaces of their own."""

    def __init__(self, files: NodeFiles, schedulable: Schedulable, owner: ProcessOwner, directory: Path) -> None:
        super().__init__(
            "node",
            isolation.command("run", files.plan),
            owner=owner,
            directory=directory,
            probe=lambda: accepts(str(files.containerd_socket)),
            environment={"PATH": files.path},
        )
        self._files, self._schedulable = files, schedulable

    @property
    def volumes(self) -> Path:
        """Where the node's volumes are on this machine; the node sees it as `files.VOLUMES`."""
        return self._files.volumes

    async def start(self, seconds: float = START_SECONDS) -> None:
        """Start it and return when pods can be scheduled on it; ComponentFailedError if it ends before."""
        if self.running:
            return
        # The remains of a node that was killed would look like one that is ready.
        self._files.containerd_socket.unlink(missing_ok=True)
        await super().start(seconds)
        pause = self._files.directory / "pause.tar"
        if not pause.exists():
            await asyncio.to_thread(archive.write, pause, PAUSE_IMAGE, self._files.binaries["pause"])
            await self.load(pause)
        async with asyncio.timeout(seconds):
            while not await self._schedulable(NAME):
                self._check_alive()
                await asyncio.sleep(_POLL_SECONDS)

    async def stop(self) -> None:
        """Turn it off, as a power cut would."""
        await self.kill()

    async def load(self, images_archive: Path) -> None:
        """Load the images of an archive (docker save, OCI) into the node; ClusterError if it cannot be read."""
        await asyncio.to_thread(images.load, self._files.directory, images_archive)

    async def tag(self, name: str, other: str) -> None:
        """Give an image of the node another name as well; both in full, with registry and tag."""
        await asyncio.to_thread(images.tag, self._files.directory, name, other)
