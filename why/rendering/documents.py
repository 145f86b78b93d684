"""The report for programs: JSON, YAML, and names that kubectl accepts."""

from typing import Final

import msgspec
import yaml

from kube.plain_text import printable, printable_lines
from why.rendering.lines import json_of
from why.report.report import ABSENT, Item, WhyReport

_RESOURCES: Final = {
    "Pod": "pod",
    "PersistentVolumeClaim": "persistentvolumeclaim",
    "PersistentVolume": "persistentvolume",
    "StatefulSet": "statefulset",
}


def as_json(report: WhyReport) -> str:
    return msgspec.json.format(json_of(report), indent=2).decode()


def as_yaml(report: WhyReport) -> str:
    document = msgspec.to_builtins(report, str_keys=True)
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    if printable_lines(text) != text:
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=False)
    return text.rstrip("\n")


def as_names(report: WhyReport, *, with_namespaces: bool = False) -> str:
    """Return the objects with a problem, one a line, as `kubectl get -o name` does; a claim that was never created is
    left out.

    With namespaces each line is arguments of kubectl: `-n NAMESPACE KIND/NAME`, for `xargs -r -L1 kubectl get`.
    """
    existing = [item for item in report.items if item.problem and item.status != ABSENT]
    return "\n".join(printable(_arguments(item, with_namespaces=with_namespaces)) for item in existing)


def _arguments(item: Item, *, with_namespaces: bool) -> str:
    name = f"{_RESOURCES[item.kind]}/{item.name}"
    return f"-n {item.namespace} {name}" if with_namespaces and item.namespace else name
