"""Which log tells more about a driver's error: of which pod, and of which of its containers."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from kube.plain_text import shell
from why.causes.drivers.workloads import driver_pods, lease_holders, look_for
from why.causes.finding import Step
from why.facts.details import DriverContainer, DriverPod
from why.facts.facts import Facts, Source

PROVISIONER: Final = "csi-provisioner"
ATTACHER: Final = "csi-attacher"
RESIZER: Final = "csi-resizer"
"""The usual names of the sidecars' containers, as the manifests of csi-driver-host-path have them."""

_AFTER_HOST: Final = re.compile(r"_[^_]*$")
_ASIDE: Final = re.compile(
    r"provisioner|attacher|resizer|snapshotter|registrar|liveness|health-monitor|snapshot-controller|volumemodifier"
    r"|kube-rbac-proxy|csi-metadata|addons|syncer|podmon|replicator"
)
"""Parts of the names of containers beside a driver's own."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A pod that was read, and its containers as far as they are known."""

    namespace: str
    name: str
    containers: tuple[DriverContainer, ...] = ()


def log_of_sidecar(facts: Facts, driver: str, sidecar: str, reporter: str = "") -> Step | None:
    """Return the command that shows the log of a driver's sidecar, None if no pod of it is known.

    `reporter` is who has written the Event, `DRIVER_HOST_UUID` of a provisioner (controller.go of
    sig-storage-lib-external-provisioner): its host is the pod. The pod has to be among those that were read, or hold
    a Lease.
    """
    facts.has(Source.DRIVER_PODS)
    facts.has(Source.LEASES)
    host, known = host_of(driver, reporter), facts.derived.of_drivers
    key = (driver, sidecar, host)
    if key not in known:
        known[key] = _log_of_sidecar(facts, driver, sidecar, host)
    step: Step | None = known[key]
    return step


def _log_of_sidecar(facts: Facts, driver: str, sidecar: str, host: str) -> Step | None:
    shown = _by_host(facts, driver, sidecar, host) or _by_driver(facts, driver, sidecar)
    if shown is None:
        return None
    of_role = [each for each in shown.containers if is_of(each, sidecar)]
    if not shown.containers:
        return Step(
            shell("kubectl -n {} logs {} -c {}", shown.namespace, shown.name, sidecar),
            "without such a container the error names those that the pod has",
        )
    if of_role and len(shown.containers) > 1:
        command = shell("kubectl -n {} logs {} -c {}", shown.namespace, shown.name, of_role[0].name)
        return Step(command, _beside(shown))
    if len(shown.containers) == 1:
        return Step(shell("kubectl -n {} logs {}", shown.namespace, shown.name))
    return Step(shell("kubectl -n {} logs {} --all-containers", shown.namespace, shown.name))


def logs_or_workloads(facts: Facts, driver: str, sidecar: str, note: str, reporter: str = "") -> Step:
    """Return where the driver's side of an error is told: in the log of its sidecar, else in one of its workloads."""
    log = log_of_sidecar(facts, driver, sidecar, reporter)
    if log is None:
        return Step(look_for(driver, "deploy,statefulset,daemonset"), note)
    return replace(log, note="; ".join(filter(None, (note, log.note))))


def log_of_node_plugin(facts: Facts, driver: str, node: str) -> Step | None:
    """Return the command that shows the log of a driver on a node, None if no pod of it there is known."""
    pod = next((pod for pod in driver_pods(facts, driver, per_node=True) if pod.node_name == node), None)
    if pod is None:
        return None
    own = _own(pod.containers)
    if own is None:
        return Step(shell("kubectl -n {} logs {} --all-containers", pod.namespace, pod.name))
    return Step(shell("kubectl -n {} logs {} -c {}", pod.namespace, pod.name, own.name))


def host_of(driver: str, reporter: str) -> str:
    """Return the host in a provisioner's identity, empty if it has none."""
    _, separator, rest = reporter.partition(f"{driver}_")
    return _AFTER_HOST.sub("", rest) if separator and _AFTER_HOST.search(rest) else rest


def _by_host(facts: Facts, driver: str, sidecar: str, host: str) -> _Found | None:
    if not host:
        return None
    if facts.has(Source.DRIVER_PODS):
        every = [pod for _, pod in sorted(facts.driver_pods.items()) if not pod.ended]
        named = next((pod for pod in every if pod.name == host), None)
        # In its node's network a pod has the name of the node.
        named = named or next((pod for pod in every if pod.node_name == host and _has(pod, sidecar)), None)
        if named is not None:
            return _found(named)
    namespaces = (space for space, holder in lease_holders(facts, driver) if holder == host)
    namespace = next(namespaces, None)
    if namespace is not None and not facts.has(Source.DRIVER_PODS):
        return _Found(namespace, host)
    pods = (facts.snapshot.pods[key] for key in sorted(facts.snapshot.pods))
    same = next((pod for pod in pods if pod.name == host and not pod.finished), None)
    return None if same is None else _Found(same.namespace, same.name)


def _by_driver(facts: Facts, driver: str, sidecar: str) -> _Found | None:
    for per_node in (False, True):
        for pod in driver_pods(facts, driver, per_node=per_node):
            if _has(pod, sidecar) or (not per_node and len(pod.containers) == 1):
                return _found(pod)
    return None


def _found(pod: DriverPod) -> _Found:
    return _Found(pod.namespace, pod.name, pod.containers)


def _has(pod: DriverPod, sidecar: str) -> bool:
    return any(is_of(each, sidecar) for each in pod.containers)


def is_of(container: DriverContainer, sidecar: str) -> bool:
    """Whether a container is that sidecar, by its name or its image: `csi-provisioner`, `external-provisioner`."""
    role = sidecar.removeprefix("csi-")
    image = container.image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    return role in container.name or image in {sidecar, f"external-{role}"}


def _beside(shown: _Found) -> str:
    own = _own(shown.containers)
    return "" if own is None else f"the driver's own log is that of container {own.name}"


def _own(containers: tuple[DriverContainer, ...]) -> DriverContainer | None:
    """Return the container of the driver itself: the only one that is no sidecar, as far as their names tell."""
    own = [each for each in _running(containers) if not _ASIDE.search(each.name)]
    return own[0] if own else None


def _running(containers: tuple[DriverContainer, ...]) -> Iterator[DriverContainer]:
    """Yield those that are no init container of the driver, which has ended before the others begin."""
    yield from (each for each in containers if not each.name.startswith("init"))
