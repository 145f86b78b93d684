"""The pods of a driver: what is to be looked at when the driver is not where it should be, or does not work.

A pod is a driver's if one of its containers is started with the driver's name, as registrars and provisioners without
CSI are; else if it holds the Lease of a sidecar of that driver; else by the usual names of the driver's workloads.
"""

import re
from collections.abc import Iterator
from typing import Final

from kube.objects.model import Pod
from kube.plain_text import shell
from why.causes.drivers.known import known_driver, stem_of
from why.causes.finding import Step
from why.causes.leases import lease_names
from why.facts.details import DriverPod
from why.facts.facts import Facts, Source
from why.report.report import Evidence

REGISTRAR: Final = "node-driver-registrar"
"""The usual name of the container that registers a driver with the kubelet."""

_OF_DAEMON_SET: Final = re.compile(r"-[a-z0-9]{5}")
_OF_OTHERS: Final = re.compile(r"(-[a-z0-9]{1,10}-[a-z0-9]{5}|-[a-z0-9]{5}|-\d+)?")
"""What follows the workload's name in that of its pod: of a Deployment, a ReplicaSet, a StatefulSet, or a mere pod."""

_OF_ANY: Final = frozenset({"csi-node", "csi-plugin", "csi-provisioner", "storage-provisioner"})
"""Names of workloads that several drivers have."""


def driver_pods(facts: Facts, driver: str, *, per_node: bool) -> list[DriverPod]:
    """Return the pods of a driver's controller, or of its node plugin, those that are known best first.

    Empty if none is known, which shows nothing: the pods of drivers may not be readable, or have other names.
    """
    if not facts.has(Source.DRIVER_PODS):
        return []
    facts.has(Source.LEASES)
    known: list[DriverPod] | None = facts.derived.of_drivers.get((driver, per_node))
    if known is None:
        known = facts.derived.of_drivers[driver, per_node] = _driver_pods(facts, driver, per_node=per_node)
    return known


def _driver_pods(facts: Facts, driver: str, *, per_node: bool) -> list[DriverPod]:
    holders = set(lease_holders(facts, driver))
    every = [pod for _, pod in sorted(facts.driver_pods.items()) if pod.per_node is per_node and not pod.ended]
    ranks = [
        [pod for pod in every if _is_started_for(pod, driver)],
        [pod for pod in every if (pod.namespace, pod.name) in holders],
        [pod for pod in every if _has_usual_name(pod, driver)],
    ]
    return list({pod.key: pod for rank in ranks for pod in rank}.values())


def lease_holders(facts: Facts, driver: str) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of the pods that hold Leases of a driver's sidecars.

    A holder is a pod's host name, and more after `_` (leader_election.go of csi-lib-utils, controller.go of
    sig-storage-lib-external-provisioner). A pod in its node's network has the node's name instead.
    """
    if not facts.has(Source.LEASES):
        return
    names = lease_names(driver)
    for _, lease in sorted(facts.leases.items()):
        if lease.name in names and lease.holder:
            yield lease.namespace, lease.holder.partition("_")[0]


def look_for(driver: str, kinds: str) -> str:
    """Return the command that lists the workloads of a driver by their usual names."""
    known = known_driver(driver)
    if known is None or known.is_found_by_stem:
        # Rook's drivers have the name of its namespace first, which is in the line of each of its workloads.
        return shell("kubectl get {} -A | grep -i {}", kinds, stem_of(driver if known is None else known.name))
    every = f"{kinds},{known.kind}" if known.kind else kinds
    return shell("kubectl get {} -A | grep" + " -e {}" * len(known.workloads), every, *known.workloads)


def node_plugin_of(facts: Facts, driver: str, node: str) -> Pod | None:
    """Return a pod that runs on the node, or on any without a node, and is the driver's node plugin."""
    if not facts.has(Source.ALL_PODS):
        return None
    stem = stem_of(driver).lower()
    pods = (facts.snapshot.pods[key] for key in sorted(facts.snapshot.pods))
    there = [pod for pod in pods if node in {"", pod.node_name} and pod.per_node and pod.phase == "Running"]
    known = {pod.key for pod in driver_pods(facts, driver, per_node=True)}
    return next((pod for pod in there if pod.key in known), None) or next(
        (pod for pod in there if stem in pod.name.lower()), None
    )


def registration(facts: Facts, driver: str, node: str, note: str = "") -> tuple[Step, tuple[Evidence, ...]]:
    """Return what registers the driver on the node, and what shows that its node plugin runs there already."""
    pod = node_plugin_of(facts, driver, node)
    if pod is None:
        missing = f"let the node plugin of {driver} run {f'on node {node}' if node else 'there'}{note}"
        return Step(look_for(driver, "daemonset"), missing), ()
    return Step(
        shell("kubectl -n {} logs {} -c {}", pod.namespace, pod.name, REGISTRAR),
        f"{pod.name} runs there and is not registered: that log says why (without such a container the error names "
        "those it has). Its --kubelet-registration-path has to be below the directory of that node's kubelet: "
        "/var/lib/kubelet, unless its --root-dir says otherwise, as with MicroK8s and k0s",
    ), (Evidence(f"pod/{pod.key}", "", f"Running on node {pod.node_name}"),)


def _is_started_for(pod: DriverPod, driver: str) -> bool:
    """Whether an argument names the driver: `--provisioner-name`, or the path of its socket below the kubelet's."""
    whole = re.compile(rf"(?<![\w.-]){re.escape(driver)}(?![\w.-])")
    return any(driver in word and whole.search(word) for container in pod.containers for word in container.words)


def _has_usual_name(pod: DriverPod, driver: str) -> bool:
    known = known_driver(driver)
    if known is None:
        return stem_of(driver).lower() in pod.name.lower()
    if known.namespace and known.namespace != pod.namespace and not _tells_apart(known.workloads):
        return False
    return any(_is_pod_of(pod, name) for name in known.workloads)


def _is_pod_of(pod: DriverPod, workload: str) -> bool:
    """Whether a pod's name is that of one of a workload; what may be before that ends with a dash or a dot.

    Helm puts the name of the release before it, the operator of Ceph's drivers that of a namespace. Names that tell no
    driver from another are those of others' workloads with anything before them.
    """
    before, is_named, suffix = pod.name.rpartition(workload)
    ending = _OF_DAEMON_SET if pod.per_node else _OF_OTHERS
    may_precede = {""} if workload in _OF_ANY else {"", "-", "."}
    return bool(is_named) and before[-1:] in may_precede and ending.fullmatch(suffix) is not None


def _tells_apart(workloads: tuple[str, ...]) -> bool:
    """Whether no other driver has workloads of these names."""
    return _OF_ANY.isdisjoint(workloads)
