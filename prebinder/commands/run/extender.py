"""`pvc-prebinder extender`: from flags to settings, then to the process."""

from dataclasses import replace
from typing import Any, Final

import cloup

from prebinder.command_line.command import Command
from prebinder.command_line.flags import CLUSTER_FLAGS, FLAGS, Flags, extender_flags, override, settings_flags
from prebinder.config.settings import ExtenderSettings, Settings, parse_address
from prebinder.errors import UsageError

EXAMPLES: Final = """
Examples:
  pvc-prebinder extender --tls-cert-file tls.crt --tls-key-file tls.key --client-ca-file ca.crt
      serve on :8443, to clients with a certificate of that CA
  pvc-prebinder extender --bind-address 127.0.0.1:8443
      beside kube-scheduler in one pod, without TLS

kube-scheduler's side (KubeSchedulerConfiguration):
  extenders:
  - urlPrefix: https://10.96.0.42    # the Service's cluster IP: kube-scheduler does not resolve its name
    filterVerb: filter
    prioritizeVerb: prioritize
    preemptVerb: preempt
    weight: 5
    nodeCacheCapable: true    # only names are sent; without it kube-scheduler scores every node as empty
    ignorable: true           # scheduling continues when the extender is down
    httpTimeout: 500ms
    enableHTTPS: true
    tlsConfig: {caFile: ca.crt, certFile: client.crt, keyFile: client.key, serverName: the name in the certificate}
  percentageOfNodesToScore: 100    # else only a sample of the nodes is sent, and reserved local volumes are missed;
                                   # not needed for classes in mode prebind

`pvc-prebinder doctor --scheduler-config FILE` checks such a file.

Exit codes:
  0 stopped by a signal   1 error   2 usage
"""

BIND_ADDRESS: Final = ":8443"

_ADDRESS, *_OTHERS = extender_flags("")

EXTENDER_FLAGS: Final[Flags] = {
    "Extender": (
        replace(_ADDRESS, help=f"address that kube-scheduler calls, default {BIND_ADDRESS}"),
        *_OTHERS,
        *(flag for flag in FLAGS["Binding"] if flag.field == "annotation_prefix"),
    ),
    "Cluster": CLUSTER_FLAGS,
    "Metrics, probes and logs": FLAGS["Metrics, probes and logs"],
}


@cloup.command("extender", cls=Command, examples=EXAMPLES)
@settings_flags(EXTENDER_FLAGS, Settings())
def command(**given: Any) -> int:
    """Filters and scores nodes for kube-scheduler by reservations and volume health.

    Rejects nodes where a pod would get an unhealthy volume or one reserved for another claim, and prefers those where
    the pod's own volumes are reserved. Reads the cluster, writes nothing.
    """
    defaults = replace(Settings(), extender=ExtenderSettings(bind_address=BIND_ADDRESS))
    settings = override(defaults, given, EXTENDER_FLAGS)
    if parse_address(settings.extender.bind_address) is None:
        raise UsageError(f"--bind-address 0: the extender needs an address such as {BIND_ADDRESS}")
    # Imported lazily: the help needs no HTTP.
    from prebinder.extender.process import run_extender  # noqa: PLC0415

    return run_extender(settings)
