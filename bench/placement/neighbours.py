"""What pods require of each other: required affinity and anti-affinity, and hard topology spread.

Checked on the final state, where the order in which pods were placed is known to the second only. So each check reports
what is wrong whatever the order was, as long as no pod was removed and no node changed; it may miss what only the order
would show.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bench.placement.cluster import Cluster, Document, by_name, key_of, labels_of, node_of, placed_at
from bench.placement.selectors import narrowed, node_fits, selects, untolerated

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class Neighbourhood:
    """The placed pods of a cluster, and their nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self._nodes = by_name(cluster.nodes)
        self._namespaces = by_name(cluster.namespaces)
        self._pods = [pod for pod in cluster.placed() if node_of(pod) in self._nodes]

    def repelled(self, pod: Document) -> Iterator[str]:
        """Return which pods are where the pod's required anti-affinity excludes them, whatever the order."""
        for term in _terms(pod, "podAntiAffinity"):
            place = self._place(pod, term["topologyKey"])
            for other in self._pods if place is not None else ():
                if (
                    other is not pod
                    and self._place(other, term["topologyKey"]) == place
                    and self._meant(term, pod, other)
                ):
                    yield f"its anti-affinity by {term['topologyKey']} excludes {key_of(other)}, which is in its domain"

    def lonely(self, pod: Document) -> Iterator[str]:
        """Return which required affinity no pod satisfies.

        A single pod has to satisfy all terms. The first of a group with affinity to itself is exempt.
        """
        terms = _terms(pod, "podAffinity")
        if not terms:
            return
        wanted = [
            other
            for other in self._pods
            if other is not pod and all(self._meant(each_term, pod, other) for each_term in terms)
        ]
        for term in terms:
            key = term["topologyKey"]
            place = self._place(pod, key)
            if place is None:
                yield f"its affinity needs a node with the label {key}"
            elif not any(self._place(other, key) == place and not _later(other, pod) for other in wanted):
                itself = all(self._meant(each_term, pod, pod) for each_term in terms)
                earlier = [other for other in wanted if _later(pod, other) and self._place(other, key) is not None]
                if not itself or earlier:
                    yield f"no pod that its affinity by {key} selects is in {place}"

    def uneven(self) -> Iterator[tuple[Document, str]]:
        """Yield a pod, and what is wrong, for each hard spread constraint that is violated by pods that all have it."""
        groups: dict[str, list[Document]] = defaultdict(list)
        rules: dict[str, Document] = {}
        for pod in self._pods:
            for rule in pod["spec"].get("topologySpreadConstraints") or ():
                selector = narrowed(rule, pod)
                if rule.get("whenUnsatisfiable") == "DoNotSchedule" and selector and selects(selector, labels_of(pod)):
                    name = json.dumps([rule, selector, _whereabouts(pod)], sort_keys=True)
                    groups[name].append(pod)
                    rules[name] = {**rule, "labelSelector": selector}
        for name, pods in groups.items():
            yield from self._skewed(rules[name], pods)

    def _skewed(self, rule: Document, pods: Sequence[Document]) -> Iterator[tuple[Document, str]]:
        key, first = rule["topologyKey"], pods[0]
        matching = self._domains(rule, first)
        for other in self._pods:
            where = self._place(other, key)
            if where in matching and _namespace(other) == _namespace(first) and _counts(rule, other):
                matching[where] += 1
        fewest = 0 if len(matching) < (rule.get("minDomains") or 1) else min(matching.values(), default=0)
        having = Counter(self._place(pod, key) for pod in pods if _counts(rule, pod))
        for pod in pods:
            place = self._place(pod, key)
            if place is None or place not in matching:
                yield pod, f"it spreads by {key}, and its node is in no eligible domain"
            elif (skew := having[place] - fewest) > rule["maxSkew"]:
                yield pod, f"it spreads by {key}: {place} is {skew} ahead of the emptiest, allowed {rule['maxSkew']}"

    def _domains(self, rule: Document, pod: Document) -> dict[str, int]:
        """Return the domains the pod may be in, with zero each."""
        keys = [
            each["topologyKey"]
            for each in pod["spec"]["topologySpreadConstraints"]
            if each.get("whenUnsatisfiable") == "DoNotSchedule"
        ]
        return {
            labels_of(node)[rule["topologyKey"]]: 0
            for node in self._nodes.values()
            if all(key in labels_of(node) for key in keys)
            and (rule.get("nodeAffinityPolicy") == "Ignore" or not node_fits(pod, node))
            and (rule.get("nodeTaintsPolicy") != "Honor" or not untolerated(pod, node))
        }

    def _place(self, pod: Document, key: str) -> str | None:
        return labels_of(self._nodes[node_of(pod)]).get(key)

    def _meant(self, term: Document, owner: Document, other: Document) -> bool:
        return self._spans(term, owner, _namespace(other)) and selects(narrowed(term, owner), labels_of(other))

    def _spans(self, term: Document, owner: Document, namespace: str) -> bool:
        named, selector = term.get("namespaces") or (), term.get("namespaceSelector")
        if not named and selector is None:
            return namespace == _namespace(owner)
        document = self._namespaces.get(namespace)
        return namespace in named or (document is not None and selects(selector, labels_of(document)))


def _terms(pod: Document, kind: str) -> Sequence[Document]:
    return ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(_REQUIRED) or ()


def _counts(rule: Document, pod: Document) -> bool:
    """Pods that are being deleted do not count, and an empty selector counts none: podtopologyspread/common.go."""
    selector: Mapping[str, Any] = rule["labelSelector"]
    asks = selector.get("matchLabels") or selector.get("matchExpressions")
    return bool(asks) and not pod["metadata"].get("deletionTimestamp") and selects(selector, labels_of(pod))


def _whereabouts(pod: Document) -> list[Any]:
    spec = pod["spec"]
    return [_namespace(pod), spec.get("nodeSelector"), spec.get("affinity"), spec.get("tolerations")]


def _namespace(pod: Document) -> str:
    return str(pod["metadata"]["namespace"])


def _later(pod: Document, other: Document) -> bool:
    """Whether it was placed in a later second than the other; False if that is not known of both."""
    mine, theirs = placed_at(pod), placed_at(other)
    return bool(mine and theirs) and mine > theirs
