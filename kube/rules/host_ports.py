"""Ports of the node that pods take: a port can be taken once, by protocol and address, and all addresses meet each.

Source: plugins/nodeports/node_ports.go and HostPortInfo in pkg/scheduler/framework.
"""

from collections.abc import Iterable
from typing import Final

from kube.objects.constraints import HostPort
from kube.objects.model import Pod

_ALL_ADDRESSES: Final = "0.0.0.0"


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the ports of its node that the pod takes."""
    return pod.constraints.ports if pod.constraints is not None else ()


def conflicting_port(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> HostPort | None:
    """Return the first taken port that one of the wanted ones conflicts with, or None."""
    for used in taken:
        for port in wanted:
            same = (port.port, port.protocol) == (used.port, used.protocol)
            if same and (port.ip == used.ip or _ALL_ADDRESSES in (port.ip, used.ip)):
                return used
    return None
