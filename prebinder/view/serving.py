"""Where the page is served: what the command knows before it starts a server."""

from dataclasses import dataclass
from typing import Final

DEFAULT_PORT: Final = 10280


@dataclass(frozen=True, slots=True)
class Serving:
    """Where to listen: always on loopback, which `kubectl port-forward` reaches in a pod, too.

    `health_bind_address` is for the kubelet's probes, 0 for none.
    """

    port: int = DEFAULT_PORT
    health_bind_address: str = "0"
