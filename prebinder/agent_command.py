"""`pvc-prebinder csi-agent`: from flags to settings, then to the agent."""

import argparse
from dataclasses import replace
from typing import Final

from binder.decision import Mode
from csi.endpoint import Endpoint
from prebinder.errors import UsageError
from prebinder.flags import FLAGS, TLS_FLAGS, Flag, Flags, add_flags, override
from prebinder.settings import LeaderElectionSettings, Settings

DESCRIPTION = """\
Runs beside one CSI driver, asks it about its volumes by calls that change nothing, and says on each PersistentVolume
when its health changes. The controller then needs no way to the driver. Several agents of one driver take turns.
"""

EXAMPLES = """\
examples:
  pvc-prebinder csi-agent --csi-endpoint csi.example.com=unix:///csi/csi.sock
      as a container in the pod of the driver's controller; manifests/components/csi-agent adds it
  pvc-prebinder csi-agent --csi-endpoint csi.example.com=unix:///csi/csi.sock --health-sweep-interval 10s
      a volume that falls sick is known ten seconds later at most

exit codes:
  0 stopped by a signal   1 error   2 usage
"""

_LEASE: Final = "pvc-prebinder-csi-agent-"
_ASKING: Final = frozenset({"endpoints", "sweep_interval", "sweep_rate", "unhealthy_after", "healthy_after"})


def agent_flags() -> Flags:
    """Return the controller's flags that make sense here."""
    health = tuple(_worded(flag) for flag in FLAGS["volume health"] if flag.field in _ASKING or flag in TLS_FLAGS)
    prefix = next(flag for flag in FLAGS["binding"] if flag.field == "annotation_prefix")
    others = ("cluster", "leader election", "metrics, probes and logs")
    return {"volume health": (*health, prefix), **{title: tuple(map(_worded, FLAGS[title])) for title in others}}


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `csi-agent`."""
    parser = subparsers.add_parser(
        "csi-agent",
        usage="%(prog)s --csi-endpoint NAME=unix:///PATH [flags]",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    add_flags(parser, agent_flags())
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    settings = agent_settings(override(Settings(), arguments, agent_flags()))
    # Imported here: the help needs no gRPC and no HTTP.
    from prebinder.agent import AGENT  # noqa: PLC0415
    from prebinder.controller import run_controller  # noqa: PLC0415

    return run_controller(settings, AGENT)


def agent_settings(chosen: Settings) -> Settings:
    """Return what the user chose, made fit for an agent: one driver, a Lease of its own, nothing reserved."""
    driver = only_driver(chosen.health.endpoints)
    election = chosen.leader_election
    if election.name == LeaderElectionSettings().name:
        # Names of drivers may have capitals, names of Leases may not.
        election = replace(election, name=_LEASE + driver.lower())
    return replace(chosen, leader_election=election, binding=replace(chosen.binding, mode=Mode.OFF))


def only_driver(endpoints: tuple[Endpoint, ...]) -> str:
    """Return the driver's name. UsageError unless there is exactly one endpoint."""
    if len(endpoints) != 1:
        raise UsageError(f"csi-agent serves one driver: expected one --csi-endpoint, found {len(endpoints)}")
    return endpoints[0].driver


def _worded(flag: Flag) -> Flag:
    match flag.field:
        case "endpoints":
            return replace(
                flag,
                help="the driver: its name, as in spec.csi.driver, and its socket; required; tcp as for the controller",
            )
        case "name":
            return replace(flag, help=f"default {_LEASE}NAME of the driver")
        case _:
            return flag
