"""The report for programs: JSON, YAML, and names that kubectl accepts."""

from typing import Final

import msgspec
import yaml

from prebinder.why.rendering.text import printable
from prebinder.why.report.report import WhyReport

_RESOURCES: Final = {
    "Pod": "pod",
    "PersistentVolumeClaim": "persistentvolumeclaim",
    "PersistentVolume": "persistentvolume",
}


def as_json(report: WhyReport) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def as_yaml(report: WhyReport) -> str:
    text: str = yaml.safe_dump(msgspec.to_builtins(report, str_keys=True), sort_keys=False, allow_unicode=True)
    return text.rstrip("\n")


def as_names(report: WhyReport) -> str:
    """Return the objects with a problem, one a line, as `kubectl get -o name` does."""
    return "\n".join(printable(f"{_RESOURCES[item.kind]}/{item.name}") for item in report.items if item.problem)
