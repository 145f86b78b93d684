"""Which pods run a process of ours that writes, whether or not it holds a Lease (`--leader-elect=false`).

A container is ours by its image or its command line, which every installation has, or because its pod has our labels or
our ServiceAccount. Not visible here: a process outside the cluster, and a container of an image of another name, with
another account and labels, whose command line does not name pvc-prebinder.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from kube.client.api import KubeApi
from kube.objects.api_resource import PODS
from prebinder.uninstall.traces import Part

_PRODUCT: Final = "pvc-prebinder"
_MODULE: Final = "prebinder.cli"
_AGENT: Final = "csi-agent"
_WRITERS: Final = ("controller", "scheduler", _AGENT)
_READERS: Final = ("extender", "why", "uninstall")
"""The commands of manifests/ that write nothing, or are this one."""
_ACCOUNTS: Final = {_PRODUCT: "controller", f"{_PRODUCT}-scheduler": "scheduler"}
_NAME_LABEL: Final = "app.kubernetes.io/name"
_COMPONENT_LABEL: Final = "app.kubernetes.io/component"
_HASH_LABEL: Final = "pod-template-hash"
_ENDED: Final = ("Succeeded", "Failed")


class _Owner(msgspec.Struct):
    kind: str
    name: str
    controller: bool = False


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    labels: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _Container(msgspec.Struct):
    name: str
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container]
    init_containers: list[_Container] | None = None
    service_account_name: str | None = None


class _Status(msgspec.Struct):
    phase: str | None = None


class RunningPod(msgspec.Struct):
    """What of a pod says whether it runs a process of ours."""

    metadata: _Meta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True, slots=True)
class Writer:
    """A process that would write again what is removed. `owner` is empty if nothing recreates the pod."""

    namespace: str
    pod: str
    command: str
    owner: str
    is_ending: bool

    def __str__(self) -> str:
        """Return what runs, and how to stop it."""
        runs = f"pod {self.namespace}/{self.pod} runs `{_PRODUCT} {self.command}`"
        if self.is_ending:
            return f"{runs} and is being deleted. Run this command again when it is gone"
        if self.command == _AGENT:
            return f"{runs}. Remove that container from {self.owner or 'it'} (docs/operate.md)"
        if not self.owner:
            return f"{runs}. Delete it: kubectl -n {self.namespace} delete pod {self.pod}"
        if self.owner.partition("/")[0] in {"deployment", "replicaset", "statefulset"}:
            return f"{runs}. Scale what it belongs to: kubectl -n {self.namespace} scale {self.owner} --replicas=0"
        return f"{runs}. Delete what it belongs to: kubectl -n {self.namespace} delete {self.owner}"


async def running(api: KubeApi, parts: Collection[Part]) -> list[Writer]:
    """Return the processes of ours that run in pods and write any of these parts. Raises KubeError."""
    pods = await api.list_all(PODS, lambda raw: msgspec.json.decode(raw, type=RunningPod))
    # An agent writes health only.
    relevant = [command for command in _WRITERS if command != _AGENT or Part.HEALTH in parts]
    return [writer for pod in pods.items for writer in writers(pod) if writer.command in relevant]


def writers(pod: RunningPod) -> Iterator[Writer]:
    """Yield the processes of ours in a pod that write."""
    if pod.status.phase in _ENDED:
        return
    meta = pod.metadata
    for command in _commands(pod):
        yield Writer(meta.namespace, meta.name, command, _owner(meta), meta.deletion_timestamp is not None)


def _commands(pod: RunningPod) -> list[str]:
    """Return the commands that write. Labels and account count if no container is ours by itself: they name the pod."""
    containers = [*pod.spec.containers, *(pod.spec.init_containers or ())]
    lines = [(each.image, " ".join([*(each.command or ()), *(each.args or ())]).split()) for each in containers]
    if any("--dry-run" in words for _, words in lines):
        return []
    ours = [words for image, words in lines if _is_ours(image, words)]
    named = [next((word for word in words if word in {*_WRITERS, *_READERS}), "") for words in ours]
    return [command for command in named or [_command_of_pod(pod)] if command in _WRITERS]


def _is_ours(image: str, words: list[str]) -> bool:
    repository = re.split(r"[:@]", image.rpartition("/")[2])[0]
    return repository == _PRODUCT or any(_PRODUCT in word or word == _MODULE for word in words)


def _command_of_pod(pod: RunningPod) -> str:
    """Return the command that labels and account say, empty if they are not ours."""
    labels = pod.metadata.labels or {}
    if labels.get(_NAME_LABEL) == _PRODUCT:
        return labels.get(_COMPONENT_LABEL, "")
    return _ACCOUNTS.get(pod.spec.service_account_name or "", "")


def _owner(meta: _Meta) -> str:
    """Return what recreates the pod, as `kind/name` for kubectl; of a Deployment's ReplicaSet the Deployment."""
    owner = next((each for each in meta.owner_references or () if each.controller), None)
    if owner is None:
        return ""
    template = f"-{(meta.labels or {}).get(_HASH_LABEL, '')}"
    if owner.kind == "ReplicaSet" and owner.name.endswith(template) and template != "-":
        return f"deployment/{owner.name.removesuffix(template)}"
    return f"{owner.kind.lower()}/{owner.name}"
