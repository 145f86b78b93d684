"""Bucket bounds in seconds, each from the metric whose dashboards should keep working."""

from typing import Final

CSI: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
"""kubernetes-csi/csi-lib-utils metrics/metrics.go."""

WORKQUEUE: Final = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10)
"""k8s.io/component-base metrics/prometheus/workqueue."""

REQUEST: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
"""k8s.io/component-base metrics/prometheus/restclient."""

PROBE: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""A call over a unix socket takes about a millisecond, and its deadline is several seconds."""

EXTENDER: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""kube-scheduler allows an extender 5 s by default, and it should need a few milliseconds."""

SCHEDULING: Final = tuple(0.01 * 2**power for power in range(20))
"""scheduler_pod_scheduling_sli_duration_seconds in pkg/scheduler/metrics/metrics.go: 10 ms to an hour and a half."""

ATTEMPT: Final = tuple(0.001 * 2**power for power in range(15))
"""scheduler_scheduling_attempt_duration_seconds in the same file: 1 ms to 16 s."""

ATTEMPTS: Final = (1, 2, 4, 8, 16)
"""scheduler_pod_scheduling_attempts in the same file."""

DECISION: Final = tuple(0.0001 * 2**power for power in range(15))
"""A decision takes from a tenth of a millisecond, for a pod like the previous one, to several milliseconds in a large
cluster.
"""

VICTIMS: Final = (1, 2, 4, 8, 16, 32, 64)
"""scheduler_preemption_victims in pkg/scheduler/metrics/metrics.go."""
