"""A CSI driver whose volumes are directories, for demonstrations and tests: `python -m devcluster.driver --help`.

Its volumes become unhealthy when their directory is removed, made unreadable or read-only, or filled
(devcluster.driver.volumes), and it reports that in the form of any generation of CSI. It passes csi-sanity. It
publishes by links or, on a node with a kubelet, by mounts.
"""

import argparse
import asyncio
import platform
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import grpc

from csi.proto import csi_v1_pb2_grpc as services
from devcluster.driver import registration
from devcluster.driver.controller import Controller, Identity
from devcluster.driver.generation import EXPLAINED, Generation
from devcluster.driver.mood import Moody
from devcluster.driver.node import Node, Place
from devcluster.driver.publishing import Links, Mounts, Publisher
from devcluster.driver.room import Room

DRIVER_NAME = "directory.csi.example"
HOSTNAME_LABEL = "kubernetes.io/hostname"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code."""
    options = _parser().parse_args(arguments)
    for directory in (options.root, options.socket.absolute().parent):
        directory.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(serve(options))
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


async def serve(options: argparse.Namespace) -> None:
    """Serve on the socket until the process is asked to end; raise RuntimeError if it cannot be opened."""
    root, generation, segment = options.root, options.generation, _segment(options)
    server = grpc.aio.server(interceptors=[Moody(options.mood)] if options.mood else [])
    # The generated functions have no type annotations.
    services.add_IdentityServicer_to_server(Identity(options.name), server)  # type: ignore[no-untyped-call]
    publisher: Publisher = Mounts() if options.publish == "mount" else Links()
    room = Room(root, options.capacity, options.segment_capacity, options.largest_volume)
    controller = Controller(root, segment, generation, room)
    node = Node(root, Place(options.node, segment, options.max_volumes), generation, publisher)
    services.add_ControllerServicer_to_server(controller, server)  # type: ignore[no-untyped-call]
    services.add_NodeServicer_to_server(node, server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"unix://{options.socket.absolute()}")
    if options.registration:
        server.add_generic_rpc_handlers((registration.service(options.name, str(options.socket.absolute())),))
        server.add_insecure_port(f"unix://{options.registration.absolute()}")
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await server.start()
    await stopped.wait()
    await server.stop(grace=1)


def label(text: str) -> tuple[str, str]:
    """Parse `key=value`."""
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise argparse.ArgumentTypeError(f"{text!r}: expected KEY=VALUE")
    return key, value


def _segment(options: argparse.Namespace) -> dict[str, str]:
    return dict(options.topology or [(HOSTNAME_LABEL, options.node)])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m devcluster.driver", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--socket", type=Path, required=True, help="path of the unix socket to serve on")
    parser.add_argument("--root", type=Path, required=True, help="directory that holds the volumes")
    parser.add_argument("--name", default=DRIVER_NAME, help="name of the driver (default: %(default)s)")
    parser.add_argument("--node", default=platform.node(), help="id of the node it runs on (default: %(default)s)")
    parser.add_argument(
        "--topology",
        type=label,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a label of the segment the driver runs in; repeat it for more labels (default: the hostname)",
    )
    _add_limits(parser)
    parser.add_argument(
        "--max-volumes",
        type=int,
        default=0,
        metavar="NUMBER",
        help="how many volumes the node may have at once; the kubelet publishes it (default: any number)",
    )
    parser.add_argument(
        "--publish",
        choices=["link", "mount"],
        default="link",
        help="how a volume appears at a path; a kubelet needs mount, which needs root (default: %(default)s)",
    )
    parser.add_argument(
        "--registration",
        type=Path,
        metavar="SOCKET",
        help="path of a socket in the kubelet's plugins_registry, where the kubelet discovers the driver",
    )
    _add_behaviour(parser)
    return parser


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--capacity",
        type=int,
        metavar="BYTES",
        help="the size of all volumes together beyond which it creates and expands none (default: no limit)",
    )
    parser.add_argument(
        "--segment-capacity",
        type=int,
        metavar="BYTES",
        help="the same for each segment of the topology: pools of which every node has one (default: no limit)",
    )
    parser.add_argument(
        "--largest-volume",
        type=int,
        metavar="BYTES",
        help="the largest size of a volume, which it reports as maximum_volume_size (default: any size)",
    )


def _add_behaviour(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mood", type=Path, metavar="FILE", help="misbehave while this file says hang, flood or lie (default: never)"
    )
    parser.add_argument(
        "--generation",
        type=Generation,
        choices=list(Generation),
        default=Generation.CONDITION,
        metavar="NAME",
        help="how it reports health: "
        + "; ".join(f"{name} = {calls}" for name, calls in EXPLAINED.items())
        + " (default: %(default)s)",
    )


if __name__ == "__main__":
    sys.exit(main())
