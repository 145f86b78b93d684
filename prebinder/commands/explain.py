"""`pvc-prebinder explain`: what a code of `why`, of an Event or of a metric means, and what to do about it."""

from typing import Final

import click
import cloup
from click.shell_completion import CompletionItem

from prebinder.command_line.command import Command
from prebinder.command_line.parameters import Completing
from prebinder.errors import ExitCode
from why.errors import WhyError
from why.explain.cause_pages import known_code, meanings, page_of
from why.rendering.markdown import print_page
from why.rendering.tables import console_for, print_unbroken, table_of

EXAMPLES: Final = """
Examples:
  pvc-prebinder explain                        every code in one line
  pvc-prebinder explain TopologyConflict
  pvc-prebinder explain TopologyConflict | less

Exit codes:
  0 success   2 usage, such as an unknown code
"""


def _code(text: str) -> str:
    try:
        return known_code(text)
    except WhyError as error:
        raise ValueError(str(error)) from error


def _codes(_: click.Context, beginning: str) -> list[CompletionItem]:
    lowered = beginning.lower()
    return [CompletionItem(code, help=words) for code, words in meanings().items() if code.lower().startswith(lowered)]


@cloup.command("explain", cls=Command, examples=EXAMPLES)
@cloup.argument("codes", nargs=-1, type=Completing("code", _code, _codes), metavar="[CODE]...")
@cloup.option("--no-headers", is_flag=True, help="print the list without its first line")
def command(codes: tuple[str, ...], no_headers: bool) -> int:
    """Explains codes of `why`, of Events and of metrics: what each means, how to see it, and how to fix it.

    Without a code every one is listed. Needs no cluster and no network: the pages are a part of the program.
    """
    console = console_for()
    if not codes:
        print_unbroken(table_of(("CODE", "MEANING"), meanings().items(), headed=not no_headers), console)
    for number, code in enumerate(codes):
        if number:
            console.print()
        print_page(page_of(code), console)
    return ExitCode.FINE
