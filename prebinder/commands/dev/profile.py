"""`pvc-prebinder dev profile`: where a running scheduler spends its time, read from its control port."""

import http.client
import sys
from pathlib import Path
from typing import Final

import cloup

from prebinder.command_line.command import Command
from prebinder.command_line.parameters import FILE, WHOLE_NUMBER, OneOf
from prebinder.config.loopback import is_loopback
from prebinder.config.settings import parse_address
from prebinder.control.token import default_token_file, read_token
from prebinder.errors import CommandError, ExitCode, UsageError
from prebinder.runtime.profiling import CONTENT_TYPES, MAX_PROFILE_SECONDS

DEFAULT_ADDRESS = "127.0.0.1:10270"
_HINT = {http.client.UNAUTHORIZED: "; is --token-file its --control-token-file?"}

EXAMPLES: Final = """
Examples:
  pvc-prebinder dev profile --seconds 30
  pvc-prebinder dev profile -o speedscope > scheduler.json      open it on speedscope.app
  pvc-prebinder dev profile -o html > scheduler.html            open it in a browser

Exit codes:
  0 success   1 error   2 usage
"""


@cloup.command("profile", cls=Command, examples=EXAMPLES)
@cloup.option(
    "--address", default=DEFAULT_ADDRESS, metavar="HOST:PORT", help=f"control port, default {DEFAULT_ADDRESS}"
)
@cloup.option(
    "--seconds",
    type=WHOLE_NUMBER,
    default=10,
    metavar="N",
    help=f"how long to sample, 1 to {MAX_PROFILE_SECONDS}, default 10",
)
@cloup.option(
    "-o",
    "--output",
    type=OneOf(tuple(CONTENT_TYPES)),
    default="text",
    metavar="FORM",
    help="text (default), html or speedscope",
)
@cloup.option(
    "--token-file",
    type=FILE,
    default=str(default_token_file()),
    metavar="FILE",
    help="the scheduler's --control-token-file",
)
def command(address: str, seconds: int, output: str, token_file: str) -> int:
    """Shows where a running `pvc-prebinder scheduler` spends its time, as a tree of calls.

    Samples the process 100 times a second, at negligible cost. Runs beside the scheduler, because the control port
    listens on loopback only.
    """
    sys.stdout.write(profile(address, seconds, output, Path(token_file)))
    return ExitCode.FINE


def profile(text: str, seconds: int, output: str, token_file: Path) -> str:
    """Request a profile, wait for it and return it."""
    try:
        address = parse_address(text)
    except ValueError as error:
        raise UsageError(f"--address: {error}") from error
    if address is None or not is_loopback(address[0]):
        # The token must not be sent to another server.
        raise UsageError(f'--address must be on loopback such as {DEFAULT_ADDRESS}, is "{text}"')
    if not 1 <= seconds <= MAX_PROFILE_SECONDS:
        raise UsageError(f"--seconds: expected 1 to {MAX_PROFILE_SECONDS}, found {seconds}")
    if not token_file.exists():
        raise CommandError(
            f"control token {token_file} does not exist: run the scheduler with --control-bind-address, or name its "
            "--control-token-file with --token-file"
        )
    path = f"/debug/profile?seconds={seconds}&format={output}"
    return _fetch(address, path, read_token(token_file), seconds)


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
            f"cannot connect to the scheduler at {where}: {problem}; is that its --control-bind-address?"
        ) from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        if not response.getheader("Content-Type", "").startswith("text/plain"):
            raise CommandError(f"{where} is not the control port of a scheduler: it answered {response.status}")
        raise CommandError(f"the scheduler answered {response.status}: {text.strip()}{_HINT.get(response.status, '')}")
    return text
