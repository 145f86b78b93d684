"""Writes docs/reference.md from the code: every command with its flags, and every key of the configuration files.

Run it after a flag or a setting has changed: `python docs/generate_reference.py`. A test fails when the page is older.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from devcluster.command import default_directory
from prebinder.cli import NESTED, main_group
from prebinder.config.config_file import AGENT, CONTROLLER
from scheduler.framework.config import FILE as SCHEDULER

PAGE: Final = Path(__file__).with_name("reference.md")

_INTRODUCTION: Final = """\
# Reference: commands and configuration

Written from the code by `python docs/generate_reference.py`. [Metrics](metrics.md), the annotations of the
[reservation contract](reservation-contract.md), [Events](events.md) and the [causes](causes/README.md) have pages of
their own. `COMMAND --help` has examples and exit codes.

Every flag of `controller` and `csi-agent` has a key in the file given by `--config`; flags override it. An unknown key
is an error that names its path and the nearest key. `controller --print-config` prints the settings in force, and
`controller --print-schema` the JSON schema of the file. Durations are read as `90s`, `5m`, `1h30m` or `PT10M`.

```yaml
apiVersion: config.pvc-prebinder/v1alpha1
kind: ControllerConfiguration
binding:
  mode: prebind
  reservationTTL: 10m
health:
  endpoints: ["csi.example.com=unix:///csi/csi.sock"]
  unknown: block
```
"""
_AS_IN_A_POD: Final = frozenset({"addedAffinity"})
"""Kubernetes' own types."""
_FILES: Final[Mapping[str, Mapping[str, Any]]] = {
    "controller": CONTROLLER.schema(),
    "csi-agent": AGENT.schema(),
    "scheduler": SCHEDULER.schema(),
}


def page() -> str:
    """Return the page."""
    context = _context(main_group, "pvc-prebinder", None)
    commands = [line for command in _commands(main_group, context) for line in command]
    files = [line for name, schema in _FILES.items() for line in _file(name, schema)]
    return (
        "\n".join([_INTRODUCTION, "## Commands", "", *commands, "## Configuration files", "", *files]).rstrip() + "\n"
    )


def _commands(group: click.Group, context: click.Context) -> Iterator[list[str]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inside = _context(command, name, context)
        if isinstance(command, click.Group):
            yield from _commands(command, inside)
        else:
            yield [f"### {inside.command_path}", "", _summary(command), "", *_flags(command, inside), ""]
        if group is main_group:
            for outer, inner in NESTED:
                if outer == name:
                    _, nested, _ = main_group.resolve_command(context, [outer, inner])
                    assert nested is not None
                    within = _context(nested, f"{outer} {inner}", context)
                    yield [f"### {within.command_path}", "", _summary(nested), "", *_flags(nested, within), ""]


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    # A bare click.Context lacks the command's own settings, and click then keeps a help flag without -h in the command,
    # for everything that runs later in this process.
    return command.make_context(name, [], parent, resilient_parsing=True)


def _summary(command: click.Command) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


def _flags(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [param.get_help_record(context) for param in command.params if isinstance(param, click.Option)]
    documented = [record for record in records if record is not None]
    yield "| flag | meaning |"
    yield "|---|---|"
    yield from (f"| `{_cell(flag)}` | {_cell(words)} |" for flag, words in documented)


def _file(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"### Of the {name}"
    yield ""
    yield "| key | default | meaning |"
    yield "|---|---|---|"
    for key, default, words in _keys(schema, schema, ""):
        # A setting that two files share is described where it is declared.
        yield f"| `{key}` | {default} | {_cell(words or _described_elsewhere(key))} |"
    yield ""


def _described_elsewhere(key: str) -> str:
    named = (words for schema in _FILES.values() for path, _, words in _keys(schema, schema, "") if path == key)
    return next(filter(None, named), "")


def _keys(schema: Mapping[str, Any], part: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield path, default and description of each key; `part` is an object of the schema."""
    for name, value in part.get("properties", {}).items():
        nested = _nested(schema, value)
        path = f"{prefix}{name}" + ("[]" if value.get("type") == "array" and nested else "")
        if nested is not None and nested.get("properties") and name not in _AS_IN_A_POD:
            yield from _keys(schema, nested, f"{path}.")
        else:
            yield path, _default(value), value.get("description") or (nested or {}).get("description", "")


def _nested(schema: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = [value, value.get("items", {}), *value.get("anyOf", ()), *value.get("allOf", ())]
    references = [choice["$ref"] for choice in choices if isinstance(choice, dict) and "$ref" in choice]
    return schema["$defs"][references[0].rpartition("/")[2]] if references else None


def _default(value: Mapping[str, Any]) -> str:
    default = value.get("const", value.get("default"))
    if default in (None, "", [], {}):
        return ""
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    text = text.replace(str(default_directory()), "~/.local/state/pvc-prebinder/devcluster")
    return re.sub(r"\s+", " ", text).replace("|", r"\|").strip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
