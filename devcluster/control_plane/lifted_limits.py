"""Client limits of kube-controller-manager and kube-scheduler that are none in practice, to see what happens without
Kubernetes' defaults of 20 and 50 requests a second.
"""

from typing import Any, Final

_REQUESTS_A_SECOND: Final = 5000
LIFTED_FLAGS: Final = (f"--kube-api-qps={_REQUESTS_A_SECOND}", f"--kube-api-burst={_REQUESTS_A_SECOND}")
"""Of kube-controller-manager."""
LIFTED_CONFIGURATION: Final[dict[str, Any]] = {
    "clientConnection": {"qps": _REQUESTS_A_SECOND, "burst": _REQUESTS_A_SECOND}
}
"""A part of the KubeSchedulerConfiguration."""
