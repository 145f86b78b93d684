"""Label selectors, node selectors and taints, implemented once more, on plain JSON.

Source: the API reference of LabelSelector, NodeSelectorTerm and Toleration.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.placement.cluster import Document, labels_of, was_so

_REJECTING: Final = {"NoSchedule", "NoExecute"}
_CORDON: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def selects(selector: Document | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches these labels: none matches nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(expression, labels) for expression in selector.get("matchExpressions") or ()
    )


def narrowed(term: Document, pod: Document) -> Document | None:
    """Return a term's selector with its matchLabelKeys and mismatchLabelKeys filled in from the pod that has it."""
    selector = term.get("labelSelector")
    if selector is None:
        return None
    labels, added = labels_of(pod), []
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        added += [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for key in term.get(field) or ()
            if key in labels
        ]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *added]}


def node_fits(pod: Document, node: Document) -> str:
    """Return which of nodeSelector and required node affinity excludes the node; empty if none does."""
    labels = labels_of(node)
    wanted: Mapping[str, str] = pod["spec"].get("nodeSelector") or {}
    for key, value in wanted.items():
        if labels.get(key) != value:
            return f"nodeSelector wants {key}={value}, the node has {labels.get(key)}"
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None and not node_selected(required, node):
        return f"no term of its node affinity {required['nodeSelectorTerms']} matches the node"
    return ""


def node_selected(selector: Document, node: Document) -> bool:
    """Whether one of the terms matches the node; an empty term matches none."""
    return any(_term_takes(term, node) for term in selector.get("nodeSelectorTerms") or ())


def untolerated(pod: Document, node: Document) -> list[str]:
    """Return the taints of the node that keep the pod off, a cordon among them."""
    taints: list[Document] = list(node["spec"].get("taints") or ())
    if node["spec"].get("unschedulable") and not any(taint["key"] == _CORDON["key"] for taint in taints):
        taints.append(_CORDON)
    tolerations = pod["spec"].get("tolerations") or ()
    return [
        f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
        for taint in taints
        if taint["effect"] in _REJECTING
        and was_so(taint.get("timeAdded"), pod)
        and not any(_tolerates(each, taint) for each in tolerations)
    ]


def _tolerates(toleration: Document, taint: Document) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    operator = toleration.get("operator") or "Equal"
    if not toleration.get("key"):
        return operator == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return operator == "Exists" or (
        operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or "")
    )


def _term_takes(term: Document, node: Document) -> bool:
    expressions: Sequence[Any] = term.get("matchExpressions") or ()
    fields: Sequence[Any] = term.get("matchFields") or ()
    names = {"metadata.name": node["metadata"]["name"]}
    return bool(expressions or fields) and (
        all(_holds(requirement, labels_of(node)) for requirement in expressions)
        and all(_holds(requirement, names) for requirement in fields)
    )


def _holds(requirement: Document, labels: Mapping[str, str]) -> bool:
    key = requirement["key"]
    values: Sequence[str] = requirement.get("values") or ()
    value = labels.get(key)
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return value is not None and _compares(operator, value, values[0])
        case unknown:
            raise ValueError(f"operator {unknown}")


def _compares(operator: str, value: str, limit: str) -> bool:
    try:
        return int(value) > int(limit) if operator == "Gt" else int(value) < int(limit)
    except ValueError:
        return False
