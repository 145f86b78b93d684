"""A sidecar of a driver that does not run although its pod exists: then that is why nothing is answered."""

from typing import Final

from kube.plain_text import shell
from why.causes.drivers.logs import is_of
from why.causes.drivers.workloads import driver_pods
from why.causes.finding import Step
from why.facts.details import DriverContainer, DriverPod
from why.facts.facts import Facts
from why.report.report import Evidence, Link

_STARTING: Final = frozenset({"ContainerCreating", "PodInitializing"})
"""What every container waits for at first."""

_WITH_LOG: Final = "CrashLoopBackOff"


def broken_sidecar(facts: Facts, driver: str, sidecar: str) -> tuple[str, Link, Evidence, Step] | None:
    """Return what is wrong with the pods of a driver's controller, None if one of them runs or none is known.

    In words, as the last link, as evidence, and where to see why. A pod fails as a whole as far as its volumes are
    concerned: a sidecar waits for the driver's socket.
    """
    pods = [pod for pod in driver_pods(facts, driver, per_node=False) if _serves(pod, sidecar)]
    broken = [(pod, _broken(pod)) for pod in pods]
    if not broken or any(container is None for _, container in broken):
        return None
    pod, container = broken[0]
    assert container is not None
    state = f"{container.waits}, {container.restarts} restarts" if container.restarts else container.waits
    says = f'"{" ".join(container.message.split())}"' if container.message else state
    return (
        f"container {container.name} of pod {pod.key} is in {container.waits}",
        Link("Pod", pod.key, f"{container.name}: {state}"),
        Evidence(f"pod/{pod.key} container {container.name}", "running", says),
        _see(pod, container),
    )


def _see(pod: DriverPod, container: DriverContainer) -> Step:
    if container.waits == _WITH_LOG:
        command = shell("kubectl -n {} logs {} -c {} --previous", pod.namespace, pod.name, container.name)
        return Step(command, "its last lines say why it ends; volumes are served when it runs")
    return Step(
        shell("kubectl -n {} describe pod {}", pod.namespace, pod.name),
        "its Events say why the container does not start",
    )


def _serves(pod: DriverPod, sidecar: str) -> bool:
    return len(pod.containers) == 1 or any(is_of(each, sidecar) for each in pod.containers)


def _broken(pod: DriverPod) -> DriverContainer | None:
    """Return the container of the pod that keeps failing, the one with the most restarts if several do."""
    waiting = [each for each in pod.containers if each.waits and each.waits not in _STARTING]
    return max(waiting, key=lambda each: each.restarts, default=None)
