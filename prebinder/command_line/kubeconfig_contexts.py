"""What the shell completes after `--context`: the names in the kubeconfig, read without the official client."""

import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from kube.plain_text import printable


def contexts(ctx: click.Context, beginning: str) -> list[CompletionItem]:
    """Complete a context of `--kubeconfig`, $KUBECONFIG or ~/.kube/config. A file that cannot be read has none."""
    given = ctx.params.get("kubeconfig") or os.environ.get("KUBECONFIG") or "~/.kube/config"
    names = {name for path in str(given).split(os.pathsep) if path for name in _contexts_in(Path(path).expanduser())}
    return [CompletionItem(printable(name)) for name in sorted(names) if name.startswith(beginning)]


def _contexts_in(file: Path) -> list[str]:
    import yaml  # noqa: PLC0415 - only completion reads these files here

    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        return [str(context["name"]) for context in document["contexts"]]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, LookupError, TypeError):
        return []
