"""Objects as kustomize makes them, and the text of their templates."""

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import Any, Final

import yaml

Document = dict[str, Any]
Command = Sequence[str | Path]

MANIFESTS: Final = Path(__file__).parents[1]


def built(kustomize: Command, components: Sequence[str], *, resource: str = "base") -> list[Document]:
    """Return what a kustomization of a directory of manifests/ with these components makes."""
    return built_from(kustomize, [MANIFESTS / resource], components)


def built_from(kustomize: Command, resources: Iterable[Path], components: Sequence[str]) -> list[Document]:
    """Return what kustomize makes of these resources with the components. Raises CalledProcessError."""
    with TemporaryDirectory() as temporary:
        directory = Path(temporary).resolve()
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            # kustomize takes directories by relative paths only.
            "resources": [os.path.relpath(path.resolve(), directory) for path in resources],
            "components": [os.path.relpath(MANIFESTS / "components" / name, directory) for name in components],
        }
        (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
        process = subprocess.run([*kustomize, temporary], capture_output=True, check=True, text=True)
    return list(yaml.safe_load_all(process.stdout))


def key(document: Document) -> tuple[str, str]:
    """Return what identifies an object among those of an installation: kind and name."""
    return document["kind"], document["metadata"]["name"]


_MANAGED: Final = re.compile(r"^( *)app\.kubernetes\.io/managed-by: kustomize$", re.MULTILINE)
_POD_LABELS: Final = 8
"""Columns before the labels of a pod. It has none for the chart: a new one would replace it for nothing."""


def labelled(text: str) -> str:
    """Return a template with the labels that Helm recommends, instead of the one of objects that kustomize makes."""
    return _MANAGED.sub(_labels, text)


def _labels(found: re.Match[str]) -> str:
    labels = [
        "app.kubernetes.io/instance: {{ $.Release.Name }}",
        "app.kubernetes.io/managed-by: {{ $.Release.Service }}",
    ]
    if len(found[1]) < _POD_LABELS:
        labels.append('helm.sh/chart: {{ include "pvc-prebinder.chart" $ }}')
    return "\n".join(found[1] + label for label in labels)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def dump(value: object) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1000)


def indented(value: object, spaces: int) -> str:
    return indent(dump(value), " " * spaces)


def condition(expression: str, text: str) -> str:
    return f"{{{{- if {expression} }}}}\n{text}{{{{- end }}}}\n"


def listed(value: str, spaces: int, *, key: str = "") -> str:
    """Return the lines that put a list or mapping from the values there, under its key; nothing if it is empty."""
    margin = " " * spaces
    named = f"{margin}{key}:\n" if key else ""
    inner = spaces + 2 if key else spaces
    put = f"{' ' * inner}{{{{- toYaml . | nindent {inner} }}}}\n"
    return f"{margin}{{{{- with {value} }}}}\n{named}{put}{margin}{{{{- end }}}}\n"


def replaced_once(text: str, changes: Mapping[str, str], subject: str) -> str:
    """Return the text with these changes. Raises ValueError for one that would not happen exactly once."""
    for original, put in changes.items():
        if text.count(original) != 1:
            raise ValueError(f"{subject}: expected once: {original}")
        text = text.replace(original, put)
    return text
