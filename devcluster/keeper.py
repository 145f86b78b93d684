"""Holds a cluster for `pvc-prebinder dev devcluster up`: starts it, reports that on stdout, and stays until it is
killed.

Nothing has to be done at the end: `reaper` cleans up after a killed owner.
"""

import asyncio
import os
import sys
from pathlib import Path

from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.nodes import spread
from devcluster.errors import ClusterError

READY = "ready\n"
REAL = "real"


async def keep(directory: Path, nodes: int, real_node: bool) -> None:
    """Start a cluster with that many nodes simulated by kwok, or a real one, and never return.

    ClusterError if it cannot be started.
    """
    cluster = DevCluster(Options(kwok=nodes > 0, real_node=real_node), directory)
    await cluster.start()
    await cluster.add_nodes(spread(nodes))
    sys.stdout.write(READY)
    sys.stdout.flush()
    detach(directory / "keeper.log")
    await asyncio.Event().wait()


def detach(log: Path) -> None:
    """Close the pipes to the parent process, which waits for their end."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, sys.stdout.fileno())
    os.dup2(descriptor, sys.stderr.fileno())
    os.close(descriptor)


if __name__ == "__main__":
    try:
        asyncio.run(keep(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] == [REAL]))
    except ClusterError as error:
        sys.exit(str(error))
