"""Random little worlds of pods that require something of one another, and of volumes on nodes and in zones.

What a number makes is always the same. Worlds share the nodes and nothing else: each has its own labels, class, port.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.scenarios.environment.documents import HOSTNAME, ZONE, Document, claim_spec
from tests.scenarios.environment.world import World

_KEYS: Final = (HOSTNAME, HOSTNAME, ZONE)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass
class Neighbours:
    """Pods that wait for volumes, behind our gate, and pods that run already."""

    volumes: list[Document] = field(default_factory=list)
    running: list[Document] = field(default_factory=list)
    waiting: list[list[Document]] = field(default_factory=list)


def neighbours(world: World, number: int, seed: int, storage_class: str, nodes: Sequence[str]) -> Neighbours:
    """Return the little world of this number. Three nodes have its local volumes, so that pods meet."""
    random = Random(f"{seed}/{number}")
    made, app = Neighbours(), f"app-{number}"
    near, rules = random.sample(list(nodes), 3), [_rule(random, app, number) for _ in range(2)]
    for count in range(random.randrange(3, 8)):
        size = f"{random.randrange(1, 4)}Gi"
        local, zone = random.random() < 0.6, random.choice(("zone-a", "zone-b"))
        where = {"node": random.choice(near)} if local else {"zone": zone}
        made.volumes.append(world.volume(f"{app}-{count}", storage_class, size=size, **where))
    for count in range(random.choice((0, 0, 1, 2))):
        pod = _pod(world, f"{app}-running-{count}", random, app, rules, gated=False)[-1]
        pod["spec"] |= {"nodeName": random.choice(near)}
        made.running.append(pod)
    for count in range(random.randrange(2, 5)):
        claims = {f"{app}-{count}-{part}": claim_spec(storage_class) for part in range(random.choice((1, 1, 2)))}
        made.waiting.append(_pod(world, f"{app}-{count}", random, app, rules, claims))
    return made


def _pod(
    world: World,
    name: str,
    random: Random,
    app: str,
    rules: Sequence[Document],
    claims: dict[str, Document] | None = None,
    *,
    gated: bool = True,
) -> list[Document]:
    rule = random.choice((*rules, *rules, {}))
    documents = world.pod_documents(name, claims or {}, gated=gated, extra=_extra(rule))
    documents[-1]["metadata"]["labels"] = {"app": app if random.random() < 0.8 else f"{app}-other"}
    documents[-1]["metadata"]["labels"]["rev"] = random.choice(("1", "2"))
    if "port" in rule:
        documents[-1]["spec"]["containers"][0]["ports"] = [{"containerPort": 80, **rule["port"]}]
    return documents


def _extra(rule: Document) -> Document:
    return {key: value for key, value in rule.items() if key != "port"}


def _rule(random: Random, app: str, number: int) -> Document:
    """Return what pods require of others: part of a pod's spec, or a port of the node."""
    selector, key = {"matchLabels": {"app": app}}, random.choice(_KEYS)
    term = {"labelSelector": selector, "topologyKey": key}
    spread: Document = {"maxSkew": random.choice((1, 1, 2)), "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    spread["labelSelector"] = selector
    other_key = ZONE if key == HOSTNAME else HOSTNAME
    honest = {"nodeTaintsPolicy": "Honor", "nodeAffinityPolicy": random.choice(("Honor", "Ignore"))}
    address = random.choice(("127.0.0.1", "10.0.0.1"))
    return random.choice(
        [
            {"affinity": {"podAntiAffinity": {_REQUIRED: [term]}}},
            {"affinity": {"podAntiAffinity": {_REQUIRED: [term]}}},
            {"affinity": {"podAntiAffinity": {_REQUIRED: [{**term, "namespaceSelector": {}}]}}},
            {"affinity": {"podAntiAffinity": {_REQUIRED: [{**term, "matchLabelKeys": ["rev"]}]}}},
            {"affinity": {"podAffinity": {_REQUIRED: [term]}}},
            {"affinity": {"podAffinity": {_REQUIRED: [{**term, "mismatchLabelKeys": ["rev"]}]}}},
            {"affinity": {kind: {_REQUIRED: [term]} for kind in ("podAffinity", "podAntiAffinity")}},
            {"topologySpreadConstraints": [spread]},
            {"topologySpreadConstraints": [{**spread, "minDomains": 2, "matchLabelKeys": ["rev"], **honest}]},
            {"topologySpreadConstraints": [spread, {**spread, "topologyKey": other_key}]},
            {"port": {"hostPort": 20_000 + number}},
            {"port": {"hostPort": 20_000 + number, "hostIP": address}},
        ]
    )
