"""`pvc-prebinder controller`: from flags and file to settings, then to the controller."""

from typing import TYPE_CHECKING, Final

import cloup

from prebinder.command_line.command import Command
from prebinder.command_line.configured import configured
from prebinder.command_line.flags import FLAGS
from prebinder.config.settings import Settings

if TYPE_CHECKING:
    from kube.configuration.document import ConfigurationFile

EXAMPLES: Final = """
Examples:
  pvc-prebinder controller --dry-run
      report what would be reserved in the cluster of the current context, until interrupted
  pvc-prebinder controller --dry-run --once
      the same for the pods that are there now; exit code 3 if some would get no volumes
  pvc-prebinder controller --mode prebind --csi-endpoint csi.example.com=unix:///csi/csi.sock
      commit the volume's side of the bind, and probe that driver about each volume first
  pvc-prebinder controller --config controller.yaml --print-config
      check a configuration file and print the settings in force

Exit codes:
  0 stopped by a signal, or --once and every pod gets its volumes   1 error   2 usage
  3 --once, and a pod gets none
"""


def _file() -> "ConfigurationFile[Settings]":
    from prebinder.config.config_file import CONTROLLER  # noqa: PLC0415 - the help needs no schema

    return CONTROLLER


@cloup.command("controller", cls=Command, examples=EXAMPLES)
@configured("a ControllerConfiguration", FLAGS, Settings(), _file)
def command(settings: Settings) -> int:
    """Watches pending pods and reserves healthy volumes for all their claims together, in one zone."""
    # Imported lazily: the help needs neither gRPC nor HTTP.
    from prebinder.controller.process import run_controller  # noqa: PLC0415

    return run_controller(settings)
