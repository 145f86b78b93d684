"""Whether a placed pod's volumes are its own, bound, and accessible from its node."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from bench.placement.cluster import Cluster, Document, amount, by_key, by_name, key_of, labels_of, node_of, phase_of
from bench.placement.selectors import node_selected

_ZONAL: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_SEVERAL: Final = "__"
"""Between the zones of a volume that is in more than one: volumehelpers.LabelZonesToSet."""


class Storage:
    """The volumes and claims of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._volumes, self._claims = by_name(cluster.volumes), by_key(cluster.claims)
        self._nodes = by_name(cluster.nodes)
        self._limits = {
            (csi_node["metadata"]["name"], driver["name"]): driver["allocatable"]["count"]
            for csi_node in cluster.csi_nodes
            for driver in csi_node["spec"].get("drivers") or ()
            if "count" in (driver.get("allocatable") or {})
        }
        self._attachments = cluster.attachments
        self._users: defaultdict[str, list[str]] = defaultdict(list)
        for pod in cluster.placed():
            for claim in claims_of(pod):
                self._users[claim].append(key_of(pod))

    def pairs(self) -> Iterator[str]:
        """Return which claims have two volumes and which volumes two claims, whether or not pods use them."""
        claims: defaultdict[str, list[str]] = defaultdict(list)
        for key, claim in self._claims.items():
            if name := claim["spec"].get("volumeName"):
                claims[name].append(key)
        yield from (f"volume {name} has claims {', '.join(keys)}" for name, keys in claims.items() if len(keys) > 1)
        volumes: defaultdict[str, list[str]] = defaultdict(list)
        for name, volume in self._volumes.items():
            reference = volume["spec"].get("claimRef") or {}
            holder = self._claims.get(f"{reference.get('namespace')}/{reference.get('name')}")
            if holder is not None and reference.get("uid") in {None, "", holder["metadata"].get("uid")}:
                volumes[key_of(holder)].append(name)
        yield from (f"claim {key} has volumes {', '.join(names)}" for key, names in volumes.items() if len(names) > 1)

    def wrong(self, pod: Document) -> Iterator[str]:
        """Return what is wrong with the pod's volumes, each separately."""
        for key in claims_of(pod):
            claim = self._claims.get(key)
            if claim is None:
                yield f"there is no claim {key}"
                continue
            yield from self._shared(key, claim)
            volume = self._volumes.get(claim["spec"].get("volumeName") or "")
            if volume is None:
                yield f"claim {key} has no volume"
            else:
                yield from _mismatches(key, claim, volume)
                yield from _out_of_reach(volume, self._nodes[node_of(pod)])

    def crowded(self, node: str, pods: list[Document]) -> Iterator[str]:
        """Return which drivers have more volumes on the node than allowed: those of its pods, and those attached."""
        names = {self._volume_of(key) for pod in pods for key in claims_of(pod)}
        names |= {
            attachment["spec"]["source"].get("persistentVolumeName")
            for attachment in self._attachments
            if attachment["spec"]["nodeName"] == node
        }
        handles: defaultdict[str, set[str]] = defaultdict(set)
        for name, volume in self._volumes.items():
            source = volume["spec"].get("csi")
            if source and name in names:
                handles[source["driver"]].add(source["volumeHandle"])
        for driver, attached in handles.items():
            limit = self._limits.get((node, driver))
            if limit is not None and len(attached) > limit:
                yield f"{len(attached)} volumes of {driver}, at most {limit} can be attached"

    def _volume_of(self, key: str) -> str | None:
        claim = self._claims.get(key)
        return None if claim is None else claim["spec"].get("volumeName")

    def _shared(self, key: str, claim: Document) -> Iterator[str]:
        users = self._users[key]
        if "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()) and len(users) > 1:
            yield f"claim {key} is for one pod only and used by {', '.join(users)}"


def claims_of(pod: Document) -> list[str]:
    """Return the keys of the claims that a pod mounts, those of its ephemeral volumes among them."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    volumes = pod["spec"].get("volumes") or ()
    named = [each["persistentVolumeClaim"]["claimName"] for each in volumes if each.get("persistentVolumeClaim")]
    named += [f"{name}-{each['name']}" for each in volumes if each.get("ephemeral")]
    return [f"{namespace}/{claim_name}" for claim_name in named]


def _mismatches(key: str, claim: Document, volume: Document) -> Iterator[str]:
    """Return why claim and volume do not match."""
    name, wanted, offered = volume["metadata"]["name"], claim["spec"], volume["spec"]
    if phase_of(claim) != "Bound":
        yield f"claim {key} is {phase_of(claim) or 'without a phase'}, not Bound"
    reference = offered.get("claimRef") or {}
    holder = (f"{reference.get('namespace')}/{reference.get('name')}", reference.get("uid"))
    if holder != (key, claim["metadata"].get("uid")):
        yield f"claim {key} has volume {name}, which is for {holder[0]} with uid {holder[1]}"
    if (wanted.get("storageClassName") or "") != (offered.get("storageClassName") or ""):
        yield f"volume {name} of claim {key} is of class {offered.get('storageClassName')}"
    if missing := set(wanted.get("accessModes") or ()) - set(offered.get("accessModes") or ()):
        yield f"volume {name} of claim {key} has no access mode {', '.join(sorted(missing))}"
    size = amount(wanted["resources"]["requests"]["storage"])
    if amount(offered["capacity"]["storage"]) < size:
        yield f"volume {name} of claim {key} has {offered['capacity']['storage']}, the claim requests {float(size):g}"


def _out_of_reach(volume: Document, node: Document) -> Iterator[str]:
    name, has = volume["metadata"]["name"], labels_of(node)
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is not None and not node_selected(required, node):
        yield f"volume {name} is not accessible: {required['nodeSelectorTerms']}"
    for key in _ZONAL if any(key in has for key in _ZONAL) else ():
        value = labels_of(volume).get(key)
        if value is not None and has.get(key) not in value.split(_SEVERAL):
            yield f"volume {name} is in {key}={value}, the node in {has.get(key)}"
