"""Incidents from public threads, each with the cluster around its error, rebuilt as far as it matters."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.why.documents import (
    SCHEDULED,
    Document,
    claim,
    csi_node,
    driver,
    event,
    node,
    pod,
    storage_class,
    volume,
)
from tests.why.driver_pods import container, waiting, workload

FOLDER: Final = Path(__file__).parent
CONTROLLER: Final = "attachdetach-controller"
_VOLUME: Final = re.compile(r'volume "([\w.-]+)"')


@dataclass(frozen=True)
class Incident:
    """What was reported, what was true, and what `why` has to say; see README.md."""

    name: str
    source: str
    truth: str
    during: str
    driver: str
    error: str
    code: str
    words: Sequence[str] = ()
    advice: Sequence[str] = ()
    text: str = ""
    unknown: str = ""
    by: str = ""
    reason: str = ""
    lacks: Sequence[str] = ()
    registered: bool = True
    next: Sequence[str] = ()
    pods: Sequence[Document] = ()
    nodes: Sequence[Document] = ()
    located: Mapping[str, str] = field(default_factory=dict)
    free: bool = False
    cpu: str = "1"
    claim: Document = field(default_factory=dict)
    pod: Document = field(default_factory=dict)
    round: int = 1
    missed: Sequence[str] = ()

    @property
    def target(self) -> str:
        return "pvc/data" if self.during in {"provision", "resize"} else "pod/db-0"

    @property
    def documents(self) -> list[Document]:
        """Return the objects of the cluster, without the kinds that it lacks, and the Event."""
        names = [(each["name"], each["zone"]) for each in self.nodes] or [("n1", "a")]
        drivers = (self.driver,) if self.registered else ()
        nodes = [made for each in names for made in (_labelled(self, *each), csi_node(each[0], *drivers))]
        made = [*_CLUSTERS[self.during](self), *nodes, driver(self.driver), SCHEDULED]
        made += [_of_driver(each) for each in self.pods]
        return [each for each in made if each["kind"] not in self.lacks]


def _labelled(incident: Incident, name: str, zone: str) -> Document:
    """Return a node of a zone, by the keys too by which the volume is located; its own name is that of its host."""
    made = node(name, zone)
    keys = [key for key in incident.located if key not in made["metadata"]["labels"]]
    made["metadata"]["labels"].update(dict.fromkeys(keys, zone))
    return made


def _of_driver(about: Document) -> Document:
    """Return a pod of the driver, with these containers, of which some may wait."""
    name, namespace, waits = about["name"], about["namespace"], about.get("waits", {})
    args = ["--csi-address=/csi/csi.sock", *about.get("args", [])]
    containers = [container(each, *args, env=list(about.get("env", {}).items())) for each in about["containers"]]
    status = {"containerStatuses": [waiting(each, reason) for each, reason in waits.items()]}
    per_node = about.get("per_node", False)
    return workload(name, *containers, namespace=namespace, node="n1", per_node=per_node, status=status)


def _provisioning(incident: Incident) -> list[Document]:
    by = incident.by or f"{incident.driver}_csi-controller-0"
    return [
        claim(spec=incident.claim),
        storage_class(provisioner=incident.driver, mode="Immediate"),
        pod("db-0", "data"),
        event("PersistentVolumeClaim", "data", incident.reason or "ProvisioningFailed", incident.error, reporter=by),
    ]


def _bound(incident: Incident) -> list[Document]:
    named = _VOLUME.search(incident.error)
    name = named[1] if named else "pv-1"
    source = {"csi": {"driver": incident.driver, "volumeHandle": name}}
    return [claim(volume=name), volume(name, claim="data", spec=source), storage_class(provisioner=incident.driver)]


def _placed(reason: str, by: str) -> Callable[[Incident], list[Document]]:
    def made(incident: Incident) -> list[Document]:
        reported = event("Pod", "db-0", incident.reason or reason, incident.error, reporter=incident.by or by)
        placed = pod("db-0", "data", node="n1", status={"phase": "Pending"}, spec=incident.pod)
        return [placed, *_bound(incident), reported]

    return made


def _growing(incident: Incident) -> list[Document]:
    by = incident.by or f"external-resizer {incident.driver}"
    bound, *others = _bound(incident)
    name = bound["spec"]["volumeName"]
    grows = claim(volume=name, size="20Gi", status={"capacity": {"storage": "10Gi"}})
    reported = event(
        "PersistentVolumeClaim", "data", incident.reason or "VolumeResizeFailed", incident.error, reporter=by
    )
    return [grows, *others, reported]


def _without_node(incident: Incident) -> list[Document]:
    expressions = [{"key": key, "operator": "In", "values": [zone]} for key, zone in incident.located.items()]
    there = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    source = {"csi": {"driver": incident.driver, "volumeHandle": "pv-1"}, "nodeAffinity": there}
    by = incident.by or "cluster-autoscaler"
    return [
        claim(volume="" if incident.free else "pv-1", spec=incident.claim),
        volume("pv-1", claim="" if incident.free else "data", spec=source),
        storage_class(),
        pod("db-0", "data", cpu=incident.cpu, spec=incident.pod),
        event("Pod", "db-0", incident.reason or "NotTriggerScaleUp", incident.error, reporter=by, type="Normal"),
    ]


_CLUSTERS: Final[Mapping[str, Callable[[Incident], list[Document]]]] = {
    "provision": _provisioning,
    "attach": _placed("FailedAttachVolume", CONTROLLER),
    "mount": _placed("FailedMount", "kubelet"),
    "resize": _growing,
    "schedule": _without_node,
}


def incidents() -> Iterator[Incident]:
    for path in sorted(FOLDER.glob("*.toml")):
        for table in tomllib.loads(path.read_text())["incident"]:
            yield Incident(**{"during": path.stem, **table})
