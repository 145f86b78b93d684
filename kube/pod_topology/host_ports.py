"""Host ports: a port can be used once per node, protocol and address; 0.0.0.0 conflicts with every address.

Source: plugins/nodeports/node_ports.go and HostPortInfo in pkg/scheduler/framework.
"""

from collections.abc import Iterable
from typing import Final

from kube.objects.constraints import HostPort
from kube.objects.model import Pod

_ALL_ADDRESSES: Final = "0.0.0.0"


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports that the pod uses."""
    return pod.constraints.ports if pod.constraints is not None else ()


def conflicting_port(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> HostPort | None:
    """Return the first port in use that conflicts with a wanted one, or None."""
    for used in taken:
        for port in wanted:
            same = (port.port, port.protocol) == (used.port, used.protocol)
            if same and (port.ip == used.ip or _ALL_ADDRESSES in (port.ip, used.ip)):
                return used
    return None
