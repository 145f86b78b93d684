"""Checks where pods were placed, by the API server's own JSON and a second implementation of the rules.

It imports nothing of the product, so that a mistake in the product's rules cannot hide itself. It checks the final
state, if no pod was removed and nodes changed only in ways that record their time: taints, and readiness.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

from bench.placement.cluster import Cluster, Document, by_name, key_of, node_of, was_so
from bench.placement.neighbours import Neighbourhood
from bench.placement.nodes import overcommitted, port_conflicts
from bench.placement.selectors import node_fits, untolerated
from bench.placement.volumes import Storage

Judged = Callable[[Document], bool]


def violations(cluster: Cluster, judged: Judged = lambda _: True) -> list[str]:
    """Return a line for each violation, none if every placement is right.

    Only pods that are `judged` are checked; the others stay where they are and count as neighbours.
    """
    nodes, storage, neighbourhood = by_name(cluster.nodes), Storage(cluster), Neighbourhood(cluster)
    placed, problems = cluster.placed(), list(storage.pairs())
    for pod in placed:
        if judged(pod):
            node = nodes.get(node_of(pod))
            wrong = ["no such node"] if node is None else [*_alone(pod, node), *storage.wrong(pod)]
            if node is not None:
                wrong += [*neighbourhood.repelled(pod), *neighbourhood.lonely(pod)]
            problems += [_line(pod, text) for text in wrong]
    problems += [_line(pod, text) for pod, text in neighbourhood.uneven() if judged(pod)]
    return [*problems, *_together(nodes, placed, storage, judged)]


def _alone(pod: Document, node: Document) -> Iterator[str]:
    """The rules about one pod and its node, independent of other pods."""
    ready = next(
        (condition for condition in node["status"].get("conditions") or () if condition["type"] == "Ready"), None
    )
    if ready is None or (ready["status"] != "True" and was_so(ready.get("lastTransitionTime"), pod)):
        yield "the node is not ready"
    if rejection := node_fits(pod, node):
        yield rejection
    yield from (f"taint {taint} is not tolerated" for taint in untolerated(pod, node))


def _together(nodes: dict[str, Document], placed: list[Document], storage: Storage, judged: Judged) -> Iterator[str]:
    """The rules about the pods of one node."""
    tenants: defaultdict[str, list[Document]] = defaultdict(list)
    for pod in placed:
        tenants[node_of(pod)].append(pod)
    for name, pods in tenants.items():
        if name not in nodes or not any(judged(pod) for pod in pods):
            continue
        yield from (f"{name}: {text}" for text in overcommitted(nodes[name], pods))
        yield from (f"{name}: {text}" for text in storage.crowded(name, pods))
        for first, second, port in port_conflicts(pods):
            yield f"{name}: {key_of(first)} and {key_of(second)} want port {port}"


def _line(pod: Document, text: str) -> str:
    return f"{key_of(pod)} on {node_of(pod)}: {text}"
