"""Zones and regions by their well-known labels, as the scheduler's VolumeZone plugin reads them."""

from collections.abc import Callable, Mapping
from typing import Final

from kube.objects.labels import NodeSelector, NodeSelectorTerm, Pairs
from kube.objects.model import Volume
from kube.rules.selectors import NAME_FIELD, label_keys

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
REGION_LABEL: Final = "topology.kubernetes.io/region"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
BETA_ZONE_LABEL: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION_LABEL: Final = "failure-domain.beta.kubernetes.io/region"

ZONE_LABELS: Final = (BETA_ZONE_LABEL, BETA_REGION_LABEL, ZONE_LABEL, REGION_LABEL)
"""The labels VolumeZone compares."""

_CURRENT_NAME: Final[Mapping[str, str]] = {BETA_ZONE_LABEL: ZONE_LABEL, BETA_REGION_LABEL: REGION_LABEL}
_DELIMITER: Final = "__"
_OF_DRIVERS: Final = "zone"
"""The name, after its prefix, of a driver's own key for zones."""


_PLACES: Final[Mapping[str, str]] = {
    "region": "region",
    "k8s-region": "region",
    "location": "location",
    "zone": "zone",
    "k8s-zone": "zone",
    "availability-zone": "zone",
    "availability-domain": "availability domain",
    "rack": "rack",
    "hostname": "node",
    "node": "node",
    "nodename": "node",
}
"""What a key is called by its name after the prefix, whichever driver has it; wider places first."""

_MAX_PLACES: Final = 8


LabelKeys = tuple[str, ...]
"""Keys of node labels that determine a result, sorted, each once."""

NodeKind = tuple[str | None, ...]
"""A node's values of such labels, in the order of the keys; None if it lacks the label."""


def kind_of_node(labels: Mapping[str, str], keys: LabelKeys, name: str = "") -> NodeKind:
    """Return the node's kind: nodes of one kind are equal for every rule that depends on these labels only.

    `metadata.name` among the keys stands for the node's name.
    """
    return tuple([name if key == NAME_FIELD else labels.get(key) for key in keys])


def labels_of_kind(kind: NodeKind, keys: LabelKeys) -> dict[str, str]:
    """Return the labels, of these keys, that nodes of a kind have in common."""
    return {key: value for key, value in zip(keys, kind, strict=True) if value is not None}


def zone_of(labels: Mapping[str, str] | Pairs) -> str:
    """Return the zone in a node's or volume's labels, the beta label as a fallback; empty if there is none."""
    known = dict(labels)
    return known.get(ZONE_LABEL) or known.get(BETA_ZONE_LABEL, "")


def volume_zone(volume: Volume) -> str:
    """Return the zone of a volume by its node affinity or labels; empty if there is none, or more than one.

    Drivers have keys of their own for zones, such as `topology.ebs.csi.aws.com/zone`: these count where the well-known
    one is absent, and nothing narrower is named beside.
    """
    affinity = volume.node_affinity
    zones = _zones_of(affinity, lambda key: key == ZONE_LABEL)
    if not zones and not is_narrower_than_zone(affinity):
        zones = _zones_of(affinity, lambda key: key.rpartition("/")[2] == _OF_DRIVERS)
    return zones.pop() if len(zones) == 1 else zone_of(volume.labels)


def place_text(affinity: NodeSelector) -> str:
    """Return where an affinity is in words, such as `zone a or b`, by the key of any driver.

    A region is not named beside what is narrower. Empty if a requirement is not one of such places, or there are many.
    """
    texts = [_term_place(term) for term in affinity.terms[: _MAX_PLACES + 1]]
    return "" if len(texts) > _MAX_PLACES or "" in texts else " or ".join(dict.fromkeys(texts))


def within(place: str) -> str:
    """Return a place in words with its preposition: on a node, in a zone."""
    return f"on {place}" if is_a_node(place) else f"in {place}"


def is_a_node(place: str) -> bool:
    """Whether a place in words is a node, by the key of any driver."""
    return place.startswith("node ")


def _term_place(term: NodeSelectorTerm) -> str:
    places: dict[str, str] = {}
    for requirement in term.match_expressions:
        name, count = _PLACES.get(requirement.key.rpartition("/")[2], ""), len(requirement.values)
        if not name or requirement.operator != "In" or not 0 < count <= _MAX_PLACES:
            return ""
        places[name] = f"{name} {' or '.join(requirement.values)}"
    if term.match_fields:
        return ""
    if len(places) > 1:
        places.pop("region", None)
    return " and ".join(places[name] for name in dict.fromkeys(_PLACES.values()) if name in places)


def _zones_of(affinity: NodeSelector | None, counts: Callable[[str], bool]) -> set[str]:
    terms = affinity.terms if affinity is not None else ()
    wanted = (requirement for term in terms for requirement in term.match_expressions)
    return {
        zone
        for requirement in wanted
        if requirement.operator == "In" and counts(requirement.key)
        for zone in requirement.values
    }


def is_on_one_node(volume: Volume) -> bool:
    """Whether the volume is local to one node: by its kind, or by an affinity to a host."""
    return volume.source in {"local", "hostPath"} or HOSTNAME_LABEL in label_keys(volume.node_affinity)


def is_narrower_than_zone(affinity: NodeSelector | None) -> bool:
    """Whether the affinity names something smaller than a zone or region: a host, a rack, a driver's own topology."""
    names = (key.rpartition("/")[2] for key in label_keys(affinity))
    return any("zone" not in name and "region" not in name for name in names)


def volume_zone_matches(volume_labels: Mapping[str, str] | Pairs, node_labels: Mapping[str, str] | Pairs) -> bool:
    """Whether the zone labels of a bound volume allow a node (VolumeZone).

    A volume's label may name several zones, `a__b`; a value with an empty part is ignored. A node without any of the
    labels is in a cluster without zones. A node may match a beta label by its current name, but not the reverse.
    """
    wanted = [(key, value) for key, value in dict(volume_labels).items() if key in ZONE_LABELS]
    if not wanted:
        return True
    known = dict(node_labels)
    if not any(key in known for key in ZONE_LABELS):
        return True
    return all(_allows(key, value, known) for key, value in wanted)


def _allows(key: str, value: str, node_labels: Mapping[str, str]) -> bool:
    places = {place.strip() for place in value.split(_DELIMITER)}
    if "" in places:
        return True
    label = node_labels.get(key, node_labels.get(_CURRENT_NAME.get(key, key)))
    return label is not None and label in places
