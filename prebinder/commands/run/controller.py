"""`pvc-prebinder controller`: from flags and file to settings, then to the controller."""

import json
import sys
from typing import Any, Final

import cloup

from prebinder.command_line.command import Command
from prebinder.command_line.flags import FLAGS, override, settings_flags
from prebinder.command_line.parameters import FILE
from prebinder.config.settings import Settings
from prebinder.errors import ExitCode

EXAMPLES: Final = """
Examples:
  pvc-prebinder controller --dry-run
      report what would be reserved in the cluster of the current context
  pvc-prebinder controller --mode prebind --csi-endpoint csi.example.com=unix:///csi/csi.sock
      commit the volume's side of the bind, and probe that driver about each volume first
  pvc-prebinder controller --config controller.yaml --print-config
      check a configuration file and print the settings in force

Exit codes:
  0 stopped by a signal   1 error   2 usage
"""


@cloup.command("controller", cls=Command, examples=EXAMPLES)
@cloup.option("--config", type=FILE, metavar="FILE", help="a ControllerConfiguration; flags override it")
@cloup.option("--print-config", is_flag=True, help="print the settings in force and exit")
@cloup.option("--print-schema", is_flag=True, help="print the JSON schema of the configuration file and exit")
@settings_flags(FLAGS, Settings())
def command(config: str | None, print_config: bool, print_schema: bool, **given: Any) -> int:
    """Watches pending pods and reserves healthy volumes for all their claims together, in one zone."""
    # Imported lazily: without a file no schema is needed, and the help needs neither gRPC nor HTTP.
    from prebinder.config.config_file import CONTROLLER, load  # noqa: PLC0415

    if print_schema:
        sys.stdout.write(json.dumps(CONTROLLER.schema(), indent=2) + "\n")
        return ExitCode.FINE
    settings = override(load(CONTROLLER, config) if config else Settings(), given, FLAGS)
    if print_config:
        sys.stdout.write(CONTROLLER.dump(settings))
        return ExitCode.FINE
    from prebinder.controller.process import run_controller  # noqa: PLC0415

    return run_controller(settings)
