"""How a volume is given up whose data is lost or cannot be reached any more, and what that loses. The one place that
says so.

No command here changes anything: only a person can know that a node or its disk never comes back.
"""

from typing import Final

from binder.health.published_health import published_health
from csi.health.complete_sweep import says_lost
from kube.objects.model import Claim, Pod, Volume
from kube.plain_text import shell
from kube.rules.quantity import format_quantity
from why.causes.finding import Step
from why.facts.facts import Facts, Source

_CREATES_NO_CLAIM: Final = frozenset({"ReplicaSet", "Job", "DaemonSet", "Node"})
"""Controllers that create a pod again, and not its claims."""


def given_up(step: Step, facts: Facts, pod: Pod, claim: Claim, volume: Volume) -> tuple[Step, ...]:
    """Return the step, and how the pod gets another volume than this one, with what is lost: everything on it.

    The claim first: with the pod first, a StatefulSet makes a new pod on the old claim (stateful_pod_control.go).
    """
    check = "check first whether the node or its disk comes back. Only if neither ever does"
    loss = _loss(volume)
    if (command := replacing(facts, pod)) is not None:
        return (
            step,
            Step(command, f"{check}: prints how the pod gets another, empty volume, and changes nothing. {loss}"),
        )
    delete = shell("kubectl -n {} delete pvc {} --wait=false", claim.namespace, claim.name)
    by_hand = f"{check}, give the volume up: `{delete}`, then delete its pods, and create both again. {loss}"
    return (Step(step.command, f"{step.note}. Else {by_hand}"),)


def replaced(facts: Facts, volume: Volume) -> tuple[Step, ...]:
    """Return how the pod of a bound volume gets another one if its driver reports that its data is lost."""
    health = published_health(volume, facts.annotations)
    if health is None or not says_lost(health.state, health.reason):
        return ()
    if volume.claim is None or not facts.has(Source.PODS):
        return ()
    pods = (facts.snapshot.pods[key] for key in sorted(facts.snapshot.pods_by_claim.get(volume.claim.key, ())))
    commands = (replacing(facts, pod) for pod in pods)
    command = next((command for command in commands if command is not None), None)
    if command is None:
        return ()
    note = "if it cannot be repaired: prints how the pod gets another, empty volume, and changes nothing"
    return (Step(command, f"{note}. {_loss(volume)}"),)


def replacing(facts: Facts, pod: Pod) -> str | None:
    """Return the command that plans the replacement of the pod's lost volumes; None if nothing creates both again."""
    details = facts.pods.get(pod.key)
    if details is None or details.owner is None or details.owner[0] in _CREATES_NO_CLAIM:
        return None
    return shell("pvc-prebinder replace pod/{} -n {}", pod.name, pod.namespace)


def _loss(volume: Volume) -> str:
    size = format_quantity(volume.capacity, binary=True)
    kept = "" if volume.reclaim_policy == "Delete" else f", and {volume.name} stays Released until you delete it"
    return f"What is on {volume.name} ({size}) and nowhere else is lost{kept}"
