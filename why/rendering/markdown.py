"""A page of Markdown on a terminal: its headings bold, its paragraphs as wide as the window, its commands unbroken."""

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.text import Text
from rich.theme import Theme

from kube.plain_text import printable_lines

_STYLES = Theme({"markdown.code": "cyan", "markdown.item.number": "default"})


class _Title(Heading):
    """On the left, also the first."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.text.plain, style="bold")


class _Commands(CodeBlock):
    """Indented, and in a narrow window longer than it, so that each can be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in str(self.text).rstrip().splitlines():
            yield Text(f"    {line}", no_wrap=True, overflow="ignore")


class _Page(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Title,
        "fence": _Commands,
    }


def print_page(text: str, console: Console) -> None:
    """Print a page; where the console is no terminal, as it is written."""
    if not console.is_terminal:
        console.print(Text(printable_lines(text.rstrip())), soft_wrap=True)
        return
    with console.use_theme(_STYLES):
        console.print(_Page(text, hyperlinks=False), crop=False)
