"""`pvc-prebinder controller`: from flags and file to settings, then to the controller."""

import argparse
import sys

from prebinder.config_file import dump, load
from prebinder.flags import add_flags, override
from prebinder.settings import Settings

DESCRIPTION = """\
Watches pods that wait for volumes and reserves healthy ones for all their claims together, in one zone.
Flags override the configuration file.
"""

EXAMPLES = """\
examples:
  pvc-prebinder controller --dry-run
      say what would be reserved in the cluster of the current context
  pvc-prebinder controller --mode prebind --csi-endpoint csi.example.com=unix:///csi/csi.sock
      commit the volume's side of the bind, and ask that driver about each volume first
  pvc-prebinder controller --config controller.yaml --print-config
      check a configuration file and print what it amounts to

exit codes:
  0 stopped by a signal   1 error   2 usage
"""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `controller`."""
    parser = subparsers.add_parser("controller", usage="%(prog)s [flags]", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("--config", metavar="FILE", help="a ControllerConfiguration; unknown keys are refused")
    parser.add_argument("--print-config", action="store_true", help="print the settings in force and exit")
    add_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    settings = override(load(arguments.config) if arguments.config else Settings(), arguments)
    if arguments.print_config:
        sys.stdout.write(dump(settings))
        return 0
    # Imported here: the help and the check of a configuration need no gRPC and no HTTP.
    from prebinder.controller import run_controller  # noqa: PLC0415

    return run_controller(settings)
