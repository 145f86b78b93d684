"""Free ports on loopback.

A port found free can be taken by another process before its user binds it. Three things make that rare: a port is not
returned again here, in whichever process, for as long as it can take to bind it; ports are drawn at random; and they
are below the range that Linux uses for outgoing connections (`net.ipv4.ip_local_port_range` starts at 32768). Users of
the ports still have to retry with others if one turns out to be in use.
"""

import atexit
import random
import socket
import sys
from collections import deque
from typing import Final

LOOPBACK = "127.0.0.1"
_FIRST, _LAST = 12_000, 32_767

_HELD_AT_MOST: Final = 200
"""Ports reserved; after so many others the oldest are in use by now, or never will be."""

_held: Final[deque[socket.socket]] = deque()


def free_ports(count: int) -> list[int]:
    """Return that many different ports that are not in use right now; OSError if they cannot be found."""
    ports: list[int] = []
    for port in random.sample(range(_FIRST, _LAST + 1), 50 * count):
        if is_free(port) and _hold(port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError(f"no {count} free ports on {LOOPBACK} between {_FIRST} and {_LAST}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _hold(port: int) -> bool:
    """Reserve the port against other callers, until this process ends at the latest; False if another one has it."""
    if sys.platform != "linux":
        return True
    # A name without a file: the kernel releases it when the process ends, however that happens.
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0pvc-prebinder-port-{port}")
    except OSError:
        name.close()
        return False
    _held.append(name)
    if len(_held) > _HELD_AT_MOST:
        _held.popleft().close()
    return True


@atexit.register
def _let_go() -> None:
    while _held:
        _held.pop().close()
