"""`pvc-prebinder extender`: from flags to settings, then to the process."""

import argparse
from dataclasses import replace
from typing import Final

from prebinder.errors import UsageError
from prebinder.flags import FLAGS, Flags, add_flags, extender_flags, override
from prebinder.settings import ExtenderSettings, Settings, parse_address

DESCRIPTION = """\
Answers kube-scheduler about nodes: refuses those where a pod would get a volume that is sick or held for somebody
else, and prefers those where the pod's own volumes are reserved. Reads the cluster, writes nothing.
"""

EXAMPLES = """\
examples:
  pvc-prebinder extender --tls-cert-file tls.crt --tls-key-file tls.key --client-ca-file ca.crt
      serve on :8443, to clients that show a certificate of that authority
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
    ignorable: true           # scheduling goes on without us
    httpTimeout: 500ms
    enableHTTPS: true
    tlsConfig: {caFile: ca.crt, certFile: client.crt, keyFile: client.key, serverName: the name in the certificate}
  percentageOfNodesToScore: 100    # else it asks about a sample of the nodes, and reserved local volumes are missed;
                                   # not needed for classes in mode prebind

`pvc-prebinder doctor --scheduler-config FILE` looks whether such a file has all of it.

exit codes:
  0 stopped by a signal   1 error   2 usage
"""

BIND_ADDRESS: Final = ":8443"


def extender_command_flags() -> Flags:
    """Return the flags: those of the controller that make sense here, and the extender's without their prefix."""
    shared = {
        title: tuple(flag for flag in FLAGS[title] if flag.group != "extender")
        for title in ("cluster", "metrics, probes and logs")
    }
    prefix = next(flag for flag in FLAGS["binding"] if flag.field == "annotation_prefix")
    address, *others = extender_flags("")
    own = (replace(address, help=f"where kube-scheduler asks, default {BIND_ADDRESS}"), *others)
    return {"extender": (*own, prefix), **shared}


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `extender`."""
    parser = subparsers.add_parser("extender", usage="%(prog)s [flags]", description=DESCRIPTION, epilog=EXAMPLES)
    add_flags(parser, extender_command_flags())
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    defaults = replace(Settings(), extender=ExtenderSettings(bind_address=BIND_ADDRESS))
    settings = override(defaults, arguments, extender_command_flags())
    if parse_address(settings.extender.bind_address) is None:
        raise UsageError(f"--bind-address 0: nobody could ask; expected an address such as {BIND_ADDRESS}")
    # Imported here: the help needs no HTTP.
    from prebinder.extender import run_extender  # noqa: PLC0415

    return run_extender(settings)
