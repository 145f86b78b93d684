"""How another pod that uses a claim comes to its end: a pod that a controller creates again does not, if it is deleted.

Tried: the old pod of a Deployment, deleted in the middle of a rolling update, is back within five seconds, and its
volume with it.
"""

from typing import Final

from kube.objects.model import Pod
from kube.plain_text import shell
from why.causes.finding import Step
from why.causes.objects import on_pod
from why.facts.facts import Facts, Source

_HASH: Final = "pod-template-hash"
_RECREATE: Final = '{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}'


def end_of(facts: Facts, user: Pod, waiting: Pod) -> Step:
    """Return what ends `user`, for which `waiting` waits, by what creates it again."""
    if user.deleting:
        note = f"it is being deleted: wait until node {user.node_name} has ended it"
        return Step(f"{on_pod('get', user)} --watch", note)
    details = facts.pods.get(user.key)
    if details is None or (details.owner is None and not facts.has(Source.NODES)):
        note = "the volume is free when it has ended; a controller that created it creates it again: scale that down"
        return Step(f"{on_pod('get', user)} -o yaml", note)
    if details.owner is None:
        note = f"if what it does may end: `{on_pod('delete', user)}`; nothing creates it again"
        return Step(on_pod("get", user), note)
    kind, name = details.owner
    deployment = _deployment_of(facts, user)
    if deployment and deployment == _deployment_of(facts, waiting):
        return _of_same_deployment(facts, user, waiting, deployment)
    owner = f"deployment {deployment}" if deployment else f"{kind.lower()} {name}"
    return Step(
        shell(
            "kubectl -n {} get {} {}",
            user.namespace,
            kind.lower() if not deployment else "deployment",
            deployment or name,
        ),
        f"{owner} creates pod {user.name} again whenever it is deleted: scale it down if that may stop, or "
        f"let pod {waiting.name} run on node {user.node_name} as well, by an affinity to that pod",
    )


def _of_same_deployment(facts: Facts, user: Pod, waiting: Pod, deployment: str) -> Step:
    """Return how one Deployment gives its volume from one pod to the other (rolling.go in controller/deployment)."""
    ours, theirs = facts.pods.get(waiting.key), facts.pods.get(user.key)
    if ours is not None and theirs is not None and ours.owner == theirs.owner:
        return Step(
            shell("kubectl -n {} get deployment {}", user.namespace, deployment),
            f"its replicas share a volume for one node, so only those on node {user.node_name} can run: scale it down "
            "to these, give each replica a volume of its own by a StatefulSet, or use a ReadWriteMany volume",
        )
    return Step(
        shell("kubectl -n {} patch deployment {} --type=merge -p {}", user.namespace, deployment, _RECREATE),
        f"this and each later update then ends the old pod before it creates the new one: it stops meanwhile. Deleting "
        f"pod {user.name} does not help, it is created again; scaling to 0 and back does, for this once. Change the "
        "manifest too",
    )


def _deployment_of(facts: Facts, pod: Pod) -> str:
    """Return the Deployment of a pod by the name of its ReplicaSet, empty if it is of none."""
    details = facts.pods.get(pod.key)
    kind, name = ("", "") if details is None or details.owner is None else details.owner
    suffix = f"-{dict(pod.labels).get(_HASH, '')}"
    return name.removesuffix(suffix) if kind == "ReplicaSet" and suffix != "-" and name.endswith(suffix) else ""
