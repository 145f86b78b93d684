"""The schema of the values, and the table that explains them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from manifests.chart_generator.names import WORKLOADS
from prebinder.config.config_file import CONTROLLER
from scheduler.framework.config import FILE as SCHEDULER

BEGIN: Final = "<!-- values: written by generate.py from the comments in values.yaml -->"
END: Final = "<!-- end of values -->"
_OBJECT: Final = {"type": "object"}
_OBJECTS: Final = {"type": "array", "items": _OBJECT}
_NUMBER_OR_PERCENTAGE: Final = {"type": ["integer", "string"], "pattern": "^[0-9]+%$|^$", "minimum": 0}
_POD: Final[dict[str, Any]] = {
    "resources": _OBJECT,
    "strategy": _OBJECT,
    "extraArgs": {"type": "array", "items": {"type": "string"}},
    "extraVolumes": _OBJECTS,
    "extraVolumeMounts": _OBJECTS,
    "serviceAccount": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "create": {"type": "boolean"},
            "name": {"type": "string"},
            "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    },
}
"""What every workload has in the values."""
_REPLICATED: Final[dict[str, Any]] = {
    "replicas": {"type": "integer", "minimum": 1},
    "topologySpreadConstraints": _OBJECTS,
    "podDisruptionBudget": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "enabled": {"type": "boolean"},
            "maxUnavailable": _NUMBER_OR_PERCENTAGE,
            "minAvailable": _NUMBER_OR_PERCENTAGE,
        },
    },
}
"""What every workload has that may have several replicas."""
_COMMENT: Final = re.compile(r"^( *)# (-- )?(.*)$")
_KEY: Final = re.compile(r"^( *)([A-Za-z]+):(.*)$")


def schema(chart: Path) -> str:
    """Return the schema of the values: written by hand, and of the configuration files as the programs read them."""
    made = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    controller, scheduler = dict(CONTROLLER.schema()), dict(SCHEDULER.schema())
    made["$defs"] = controller.pop("$defs") | scheduler.pop("$defs")
    for file in (controller, scheduler):
        del file["$schema"]
    properties = made["properties"]
    for component, where in WORKLOADS.items():
        name = where.removeprefix(".Values").removeprefix(".")
        own = properties[name]["properties"] if name else properties
        own.update(_POD if component == "view" else _POD | _REPLICATED)
    properties["config"] = controller
    properties["scheduler"]["properties"]["config"] = scheduler
    return json.dumps(made, indent=2) + "\n"


def table(chart: Path) -> str:
    """Return the chart's page with the table of its values: a row for each key above which a comment has `# -- `."""
    page = (chart / "README.md").read_text(encoding="utf-8")
    text = (chart / "values.yaml").read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    values = yaml.safe_load(text)
    rows = "".join(
        f"| `{'.'.join(path)}` | {_default(values, path)} | {comment} |\n" for path, comment in explained(text)
    )
    return f"{before}{BEGIN}\n| value | default | what it does |\n|---|---|---|\n{rows}{END}{after}"


def explained(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path of each key that is explained, and the comment above it in one line."""
    path: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        if (found := _COMMENT.match(line)) and (found[2] or comment):
            comment.append(found[3])
        elif found := _KEY.match(line):
            path = [*path[: len(found[1]) // 2], found[2]]
            if comment:
                yield tuple(path), " ".join(comment).replace("|", "\\|")
            comment = []
        else:
            comment = []


def _default(values: Any, path: tuple[str, ...]) -> str:
    for name in path:
        values = values[name]
    if values in ("", [], {}):
        return "none"
    return "as in `values.yaml`" if isinstance(values, dict) else f"`{json.dumps(values)}`"
