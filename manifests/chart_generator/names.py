"""Names of objects: with the value `fullnameOverride` they begin with that instead of `pvc-prebinder`."""

import re
from collections.abc import Mapping
from typing import Any, Final

from manifests.chart_generator.documents import Document

NAMESPACE: Final = "pvc-prebinder-system"
WORKLOADS: Final[Mapping[str, str]] = {
    "controller": ".Values",
    **{name: f".Values.{name}" for name in ("extender", "scheduler", "view")},
    "kube-scheduler": ".Values.secondKubeScheduler",
}
"""The component of a Deployment -> where values.yaml has what is its own."""

_OURS: Final = re.compile(r"^pvc-prebinder(?=-[a-z-]+$|$)")
_REFERRING: Final = frozenset(["name", "policyName", "secretName"])
"""Keys whose values are names of objects. A Lease's name, in `resourceNames`, is the program's and stays."""
_ACCOUNT_NAME: Final = re.compile(rf"(system:serviceaccount:{NAMESPACE}:)pvc-prebinder(-[a-z]+)?(?=')")
_MARKS: Final[Mapping[str, str]] = {
    "FULLNAME": '{{ include "pvc-prebinder.fullname" . }}',
    **{
        f"ACCOUNT-{name}": f'{{{{ include "pvc-prebinder.account" (list . {values} "{name}") }}}}'
        for name, values in WORKLOADS.items()
    },
}
"""What stands in an object for a name that a value decides -> the expression."""


def marked(document: Document) -> Document:
    """Return the object with marks instead of the names of objects; `expanded` puts expressions into its text."""
    made: Document = _marked(document, is_account=document["kind"] == "ServiceAccount")
    return made


def expanded(text: str) -> str:
    for mark, expression in _MARKS.items():
        text = text.replace(mark, expression)
    return text


def _marked(value: Any, *, is_account: bool) -> Any:
    if isinstance(value, list):
        return [_marked(each, is_account=is_account) for each in value]
    if isinstance(value, str):
        return _ACCOUNT_NAME.sub(lambda found: found[1] + _account(found[2]), value)
    if not isinstance(value, dict):
        return value
    return {name: _marked_field(name, field, value, is_account=is_account) for name, field in value.items()}


def _marked_field(name: str, field: Any, parent: Mapping[str, Any], *, is_account: bool) -> Any:
    # Groups of rules are no objects.
    if name == "groups":
        return field
    if name == "dnsNames":
        return [_OURS.sub("FULLNAME", host.split(".")[0]) + host[host.index(".") :] for host in field]
    if name == "serviceAccountName" or (name == "name" and (is_account or parent.get("kind") == "ServiceAccount")):
        found = re.fullmatch(r"pvc-prebinder(-[a-z-]+)?", field)
        return _account(found[1]) if found else field
    if name in _REFERRING and isinstance(field, str):
        return _OURS.sub("FULLNAME", field)
    return _marked(field, is_account=is_account)


def _account(suffix: str | None) -> str:
    return f"ACCOUNT-{(suffix or '-controller').removeprefix('-')}"
