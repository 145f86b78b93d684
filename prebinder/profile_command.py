"""`pvc-prebinder profile`: where a running scheduler spends its time, asked on its control port."""

import argparse
import http.client
import sys
from pathlib import Path

from prebinder.control_token import default_token_file, read_token
from prebinder.errors import CommandError, ExitCode, UsageError
from prebinder.loopback import is_loopback
from prebinder.profiling import LONGEST_SECONDS
from prebinder.settings import parse_address

DEFAULT_ADDRESS = "127.0.0.1:10270"
_HINT = {http.client.UNAUTHORIZED: "; is --token-file its --control-token-file?"}
OUTPUTS = ("table", "collapsed", "speedscope")

DESCRIPTION = """\
Says where a running `pvc-prebinder scheduler` spends its time: the functions with the largest shares. It looks at the
process 100 times a second, which costs that next to nothing. Runs beside the scheduler: its control port is on
loopback only.
"""

EPILOG = """\
examples:
  pvc-prebinder profile --seconds 30
  pvc-prebinder profile -o speedscope > scheduler.json      open it on speedscope.app
  pvc-prebinder profile -o collapsed | flamegraph.pl > scheduler.svg

exit codes:
  0 fine   1 error   2 usage
"""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `profile`."""
    parser = subparsers.add_parser("profile", usage="%(prog)s [flags]", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument(
        "--address", default=DEFAULT_ADDRESS, metavar="HOST:PORT", help=f"the control port, default {DEFAULT_ADDRESS}"
    )
    parser.add_argument("--seconds", type=int, default=10, metavar="N", help="how long to look, 1 to 120, default 10")
    parser.add_argument("-o", "--output", choices=OUTPUTS, default=OUTPUTS[0], help=f"default {OUTPUTS[0]}")
    parser.add_argument(
        "--token-file",
        default=str(default_token_file()),
        metavar="FILE",
        help="the scheduler's --control-token-file, default as there",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Ask, wait and print."""
    try:
        address = parse_address(arguments.address)
    except ValueError as error:
        raise UsageError(f"--address: {error}") from error
    if address is None or not is_loopback(address[0]):
        # The token is not for others to see.
        raise UsageError(f'--address must be on loopback such as {DEFAULT_ADDRESS}, is "{arguments.address}"')
    if not 1 <= arguments.seconds <= LONGEST_SECONDS:
        raise UsageError(f"--seconds: expected 1 to {LONGEST_SECONDS}, found {arguments.seconds}")
    token_file = Path(arguments.token_file)
    if not token_file.exists():
        raise CommandError(
            f"there is no control token {token_file}: run the scheduler with --control-bind-address, or name its "
            "--control-token-file with --token-file"
        )
    path = f"/debug/profile?seconds={arguments.seconds}&format={arguments.output}"
    sys.stdout.write(_fetch(address, path, read_token(token_file), arguments.seconds))
    return ExitCode.FINE


def _fetch(address: tuple[str, int], path: str, token: str, seconds: int) -> str:
    where = f"{address[0]}:{address[1]}"
    connection = http.client.HTTPConnection(*address, timeout=seconds + 30)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        text = response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        problem = getattr(error, "strerror", None) or error
        raise CommandError(
            f"cannot ask the scheduler at {where}: {problem}; is its --control-bind-address that?"
        ) from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        if not response.getheader("Content-Type", "").startswith("text/plain"):
            raise CommandError(f"at {where} is no scheduler's control port: it answered {response.status}")
        raise CommandError(f"the scheduler answered {response.status}: {text.strip()}{_HINT.get(response.status, '')}")
    return text
