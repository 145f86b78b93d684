"""`pvc-prebinder csi-agent`: from flags and file to settings, then to the agent."""

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

import cloup

from binder.model.decision import Mode
from csi.client.endpoint import Endpoint
from kube.objects.api_resource import VOLUMES
from prebinder.command_line.command import Command
from prebinder.command_line.configured import configured
from prebinder.command_line.flags import CLUSTER_FLAGS, FLAGS, PROBE_FLAGS, Flag, Flags
from prebinder.config.settings import AgentSettings, BindingSettings, HealthSettings, ProbeSettings, Settings
from prebinder.errors import UsageError

if TYPE_CHECKING:
    from kube.configuration.document import ConfigurationFile

EXAMPLES: Final = """
Examples:
  pvc-prebinder csi-agent --csi-endpoint csi.example.com=unix:///csi/csi.sock
      as a container in the pod of the driver's controller; manifests/components/csi-agent adds it
  pvc-prebinder csi-agent --csi-endpoint csi.example.com=unix:///csi/csi.sock --health-sweep-interval 10s
      report an unhealthy volume after at most ten seconds

Exit codes:
  0 stopped by a signal   1 error   2 usage
"""

COMPONENT: Final = "pvc-prebinder-csi-agent"
_LEASE: Final = "pvc-prebinder-csi-agent-"

AGENT_FLAGS: Final[Flags] = {
    "Cluster": CLUSTER_FLAGS,
    "Volume health": (
        *(
            replace(flag, help="the driver: its name, as in spec.csi.driver, and its socket; required")
            if flag.field == "endpoints"
            else flag
            for flag in PROBE_FLAGS
        ),
        Flag(
            "--annotation-prefix",
            "publishing.annotation_prefix",
            "the controller's; default scheduler.cloud.example/",
            "PREFIX",
        ),
    ),
    "Leader election": tuple(
        replace(flag, help=f"default {_LEASE}NAME of the driver") if flag.field == "name" else flag
        for flag in FLAGS["Leader election"]
    ),
    "Metrics, probes and logs": FLAGS["Metrics, probes and logs"],
}


def _file() -> "ConfigurationFile[AgentSettings]":
    from prebinder.config.config_file import AGENT  # noqa: PLC0415 - the help needs no schema

    return AGENT


@cloup.command("csi-agent", cls=Command, examples=EXAMPLES)
@configured("an AgentConfiguration", AGENT_FLAGS, AgentSettings(), _file)
def command(settings: AgentSettings) -> int:
    """Runs beside a CSI driver, probes its volumes by read-only calls, and publishes changes of their health.

    The health is written to each PersistentVolume, so the controller needs no access to the driver. Of several agents
    of one driver, only the leader is active.
    """
    chosen = controller_settings(settings)
    # Imported lazily: the help needs neither gRPC nor HTTP.
    from prebinder.controller.process import run_controller  # noqa: PLC0415

    return run_controller(chosen, COMPONENT, (VOLUMES,))


def controller_settings(chosen: AgentSettings) -> Settings:
    """Return the settings of the process: one driver, its own Lease, no reservations. UsageError unless there is one
    driver.
    """
    driver = only_driver(chosen.health.endpoints)
    election = chosen.leader_election
    if not election.name:
        # Names of drivers may contain capitals, names of Leases may not.
        election = replace(election, name=_LEASE + driver.lower())
    # By name, so that a new setting of probes is one of the agent's too.
    probing = {field.name: getattr(chosen.health, field.name) for field in fields(ProbeSettings)}
    return Settings(
        cluster=chosen.cluster,
        binding=BindingSettings(mode=Mode.OFF, annotation_prefix=chosen.publishing.annotation_prefix),
        health=HealthSettings(**probing),
        leader_election=election,
        serving=chosen.serving,
        logging=chosen.logging,
    )


def only_driver(endpoints: tuple[Endpoint, ...]) -> str:
    """Return the driver's name. UsageError unless there is exactly one endpoint."""
    if len(endpoints) != 1:
        count = len(endpoints)
        raise UsageError(f"csi-agent serves one driver: expected one --csi-endpoint NAME=unix:///PATH, found {count}")
    return endpoints[0].driver
