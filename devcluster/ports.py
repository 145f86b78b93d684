"""Free ports on loopback.

A port found free can be taken by somebody else before its user binds it. Two things make that rare: ports are drawn
at random, and from below the range that Linux hands to outgoing connections (`net.ipv4.ip_local_port_range` starts at
32768). Whoever uses the ports still has to try again with others when one turns out to be in use.
"""

import random
import socket

LOOPBACK = "127.0.0.1"
_FIRST, _LAST = 12_000, 32_767


def free_ports(count: int) -> list[int]:
    """Return that many different ports that nobody listens on right now; OSError if they cannot be found."""
    ports: list[int] = []
    for port in random.sample(range(_FIRST, _LAST + 1), 50 * count):
        if is_free(port):
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
