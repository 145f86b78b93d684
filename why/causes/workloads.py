"""The pods of a driver, by their names: what is to be looked at when the driver is not where it should be."""

from kube.objects.model import Pod
from kube.plain_text import shell
from why.causes.finding import Step
from why.causes.objects import stem_of
from why.facts.facts import Facts, Source
from why.report.report import Evidence

_REGISTRAR = "node-driver-registrar"
"""The usual name of the container that registers a driver with the kubelet."""


def node_plugin_of(facts: Facts, driver: str, node: str) -> Pod | None:
    """Return a pod that runs on the node, or any without a node, and is the driver's node plugin by its name."""
    if not facts.has(Source.ALL_PODS):
        return None
    stem = stem_of(driver).lower()
    pods = (facts.snapshot.pods[key] for key in sorted(facts.snapshot.pods))
    there = (pod for pod in pods if node in {"", pod.node_name} and pod.per_node and pod.phase == "Running")
    return next((pod for pod in there if stem in pod.name.lower()), None)


def registration(facts: Facts, driver: str, node: str, note: str = "") -> tuple[Step, tuple[Evidence, ...]]:
    """Return what registers the driver on the node, and what shows that its node plugin runs there already."""
    pod = node_plugin_of(facts, driver, node)
    if pod is None:
        missing = f"let the node plugin of {driver} run {f'on node {node}' if node else 'there'}{note}"
        return Step(shell("kubectl get daemonset -A | grep -i {}", stem_of(driver)), missing), ()
    return Step(
        shell("kubectl -n {} logs {} -c {}", pod.namespace, pod.name, _REGISTRAR),
        f"{pod.name} runs there and is not registered: that log says why (without such a container the error names "
        "those it has). Its --kubelet-registration-path has to be below the directory of that node's kubelet: "
        "/var/lib/kubelet, unless its --root-dir says otherwise, as with MicroK8s and k0s",
    ), (Evidence(f"pod/{pod.key}", "", f"Running on node {pod.node_name}"),)
