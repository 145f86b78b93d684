"""Which objects `why` is about, and their flags."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import cloup

from kube.objects.labels import LabelSelector
from kube.objects.model import Claim, Pod
from prebinder.command_line.cluster_names import name_type, namespaces
from prebinder.command_line.cluster_names import targets as targets_of
from prebinder.command_line.parameters import Completing, Reading
from prebinder.errors import UsageError
from why.explain.targets import Target, of_one_kind, parse_selector, parse_target


@dataclass(frozen=True, slots=True)
class WhyRequest:
    """The objects that the command names; without `targets` everything pending in the namespace, or `everywhere`."""

    targets: tuple[Target, ...]
    namespace: str | None
    everywhere: bool
    selector: LabelSelector | None

    @property
    def names_workload(self) -> bool:
        """Whether pods are named by what created them, such as a StatefulSet."""
        return any(target.is_workload for target in self.targets)

    def covers(self, subject: Claim | Pod) -> bool:
        """Whether an object of a dump is meant: all are, unless the command names some, or a namespace."""
        if self.namespace not in {None, subject.namespace}:
            return False
        kind = "Pod" if isinstance(subject, Pod) else "PersistentVolumeClaim"
        named = ((target.kind, target.name) for target in self.targets)
        return not self.targets or any(known in {kind, ""} and name == subject.name for known, name in named)


def request_flags(function: Callable[..., int]) -> Callable[..., int]:
    """Add the names of objects, `--namespace`, `--all-namespaces` and `--selector`; the command receives them as
    `request`. Raises UsageError where they contradict each other.
    """

    @wraps(function)
    def with_request(
        targets: tuple[Target, ...],
        namespace: str | None,
        everywhere: bool,
        selector: LabelSelector | None,
        **others: Any,
    ) -> int:
        targets = of_one_kind(targets)
        if everywhere and targets:
            raise UsageError("--all-namespaces explains everything pending: omit the names, or use --namespace")
        if selector is not None and targets:
            raise UsageError("--selector selects among everything pending: omit the names")
        return function(request=WhyRequest(targets, namespace, everywhere, selector), **others)

    flags = (
        cloup.argument(
            "targets", nargs=-1, type=Completing("target", parse_target, targets_of), metavar="[KIND/NAME | NAME]..."
        ),
        cloup.option(
            "-n",
            "--namespace",
            type=name_type(namespaces),
            metavar="NAME",
            help="default that of the kubeconfig's context",
        ),
        cloup.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="everything pending in the cluster"),
        cloup.option(
            "-l",
            "--selector",
            type=Reading("selector", parse_selector),
            metavar="LABELS",
            help="only pending pods and claims with these labels, such as app=web,tier!=cache",
        ),
    )
    flagged: Callable[..., int] = with_request
    for flag in reversed(flags):
        flagged = flag(flagged)
    return flagged
