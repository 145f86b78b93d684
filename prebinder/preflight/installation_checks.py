"""Whether what is installed works: the controller, its Lease, its account's rights, the policies. Pure rules.

Everything here is about objects that exist; what a cluster could offer is in `doctor_checks`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from binder.model.decision import Mode
from kube.objects.api_resource import PODS
from kube.rules.duration import age_text, format_duration
from prebinder.preflight.doctor_checks import Check, CheckState
from prebinder.preflight.requirements import KARPENTER, SNAPSHOTS, Need
from why.facts.details import LeaseDetails

CONTROLLER: Final = "controller"
EXTENDER: Final = "extender"
GATE: Final = "gate policy"
LIMITS: Final = "account limits"
ALERTS: Final = "alerts"
_UNREADABLE: Final = "you may not read it"


@dataclass(frozen=True, slots=True)
class InstalledPod:
    """A pod of an installation: what it runs (`component`), with which image and account, and whether it is Ready."""

    name: str
    component: str
    version: str
    account: str
    is_ready: bool


@dataclass(frozen=True, slots=True)
class Policies:
    """Names of policies, and of those that a binding makes effective."""

    existing: frozenset[str]
    bound: frozenset[str]


@dataclass(frozen=True, slots=True)
class Installation:
    """What was found in the namespace of an installation. None means that it could not be read.

    `rights` are those of the controller's account. `gate`, `limits` and `alerts` are ours, by their labels; they are
    None also where the API is not served.
    """

    namespace: str
    pods: Sequence[InstalledPod] | None
    lease: LeaseDetails | None
    lease_name: str
    rights: Mapping[Need, bool | None]
    gate: Policies | None
    limits: Policies | None
    alerts: int | None

    @property
    def exists(self) -> bool:
        return bool(self.pods) or self.lease is not None

    def of(self, component: str) -> Sequence[InstalledPod]:
        return [pod for pod in self.pods or () if pod.component == component]


@dataclass(frozen=True, slots=True)
class InUse:
    """What StorageClasses need of a controller by their annotations: modes, and nodes to come for their volumes."""

    modes: frozenset[Mode] = frozenset()
    new_nodes: bool = False


def installation_checks(installation: Installation, in_use: InUse, version: str, now: datetime) -> Iterator[Check]:
    """Check an installation. `version` is this command's."""
    if not installation.exists:
        what = (
            f"none in namespace {installation.namespace}" if installation.pods is not None else f"pods: {_UNREADABLE}"
        )
        meaning = (
            "the checks above are about the cluster; --lease-namespace names another namespace, docs/install.md helps"
        )
        yield Check("installation", CheckState.NOTE, what, meaning)
        return
    yield from _pods(installation, version)
    yield _lease(installation, now)
    yield from _rights(installation, in_use)
    yield _gate(installation)
    yield _limits(installation)
    yield _alerts(installation)


def leads(installation: Installation, now: datetime) -> bool:
    """Whether a controller holds the Lease now."""
    lease = installation.lease
    if lease is None or not lease.holder or lease.renewed is None:
        return False
    return (now - lease.renewed).total_seconds() < lease.duration


def _pods(installation: Installation, version: str) -> Iterator[Check]:
    if installation.pods is None:
        yield Check(
            CONTROLLER, CheckState.NOTE, _UNREADABLE, f"whether its pods run in {installation.namespace} is unknown"
        )
        return
    controllers = installation.of(CONTROLLER)
    if not controllers:
        meaning = "nothing is reserved, and no gate is removed: gated pods stay Pending"
        yield Check(CONTROLLER, CheckState.PROBLEM, f"no pod in namespace {installation.namespace}", meaning)
    for component in (CONTROLLER, EXTENDER):
        pods = installation.of(component)
        if pods:
            yield _ready(component, pods, installation.namespace)
    others = sorted({pod.version for pod in installation.pods if pod.version and pod.version != version})
    if others:
        meaning = "this command checks for what its own version needs"
        yield Check("version", CheckState.NOTE, f"{', '.join(others)} runs; this command is {version}", meaning)


def _ready(component: str, pods: Sequence[InstalledPod], namespace: str) -> Check:
    ready = [pod for pod in pods if pod.is_ready]
    count = f"{len(ready)} of {len(pods)} pods ready"
    if len(ready) == len(pods):
        return Check(component, CheckState.OK, count)
    waiting = next(pod.name for pod in pods if not pod.is_ready)
    meaning = f"see: kubectl -n {namespace} describe pod {waiting}"
    if component == EXTENDER:
        meaning = f"its TLS Secret may be missing (docs/extender.md); {meaning}"
    return Check(component, CheckState.NOTE if ready else CheckState.PROBLEM, count, meaning)


def _lease(installation: Installation, now: datetime) -> Check:
    subject, lease = f"Lease {installation.namespace}/{installation.lease_name}", installation.lease
    nothing = "nothing is written"
    if lease is None:
        return Check(subject, CheckState.PROBLEM, "does not exist, or you may not read it", nothing)
    if not lease.holder or lease.renewed is None:
        return Check(subject, CheckState.PROBLEM, "held by no one", f"{nothing} until a controller takes it")
    age, holder = age_text(now - lease.renewed), _pod_of(lease.holder)
    if not leads(installation, now):
        meaning = f"{nothing}: that controller has ended, or cannot reach the API server"
        return Check(subject, CheckState.PROBLEM, f"{holder} renewed it {age} ago", meaning)
    return Check(subject, CheckState.OK, f"held by {holder}, renewed {age} ago")


def _pod_of(holder: str) -> str:
    """Return the pod's name, to which holders of Leases add a random part."""
    return holder.rpartition("_")[0] or holder


def _rights(installation: Installation, in_use: InUse) -> Iterator[Check]:
    accounts = sorted({pod.account for pod in installation.of(CONTROLLER) if pod.account})
    if not accounts:
        return
    subject = f"rights of {installation.namespace}/{accounts[0]}"
    known = {need: answer for need, answer in installation.rights.items() if answer is not None}
    if not known:
        meaning = "you may not create SubjectAccessReviews"
        yield Check(subject, CheckState.NOTE, "unknown", meaning)
        return
    missing = [
        need for need, answer in known.items() if not answer and not need.part and _is_needed(need, in_use.modes)
    ]
    if not missing:
        yield Check(subject, CheckState.OK, f"{len(known)} checked for its classes' modes")
    for need in missing:
        yield Check(f"{subject}: {need}", CheckState.PROBLEM, "not granted", need.without)
    yield from _parts(known, in_use)


def _is_needed(need: Need, modes: Collection[Mode]) -> bool:
    """Whether the modes need a right. The mode of classes without annotation is in the controller's configuration."""
    if need.subresource == "status" and need.resource is not PODS:
        return Mode.COMPLETE in modes
    return need.vital or bool(modes)


def _parts(known: Mapping[Need, bool], in_use: InUse) -> Iterator[Check]:
    """Name the components that are left out, unless no class needs them. Half of one is a mistake."""
    unused = {KARPENTER: not in_use.new_nodes, SNAPSHOTS: Mode.PROVISION not in in_use.modes}
    parts = dict.fromkeys(need.part for need in known if need.part and not unused.get(need.part))
    for part in parts:
        missing = [need for need, answer in known.items() if need.part == part and not answer]
        if not missing:
            continue
        first = missing[0]
        if any(answer and need.part == part for need, answer in known.items()):
            yield Check(part, CheckState.PROBLEM, f"not granted: {', '.join(map(str, missing))}", first.without)
        else:
            yield Check(part, CheckState.NOTE, "not installed", first.without)


def _gate(installation: Installation) -> Check:
    if installation.gate is None:
        return Check(GATE, CheckState.NOTE, "not served, or you may not read it", "pod templates need the gate")
    if not installation.gate.existing:
        meaning = "only pods whose template has the gate are guaranteed their volumes (components/gate-policy adds it)"
        return Check(GATE, CheckState.NOTE, "not installed", meaning)
    return _bound(GATE, installation.gate, "no gate is added")


def _limits(installation: Installation) -> Check:
    if installation.limits is None:
        return Check(LIMITS, CheckState.NOTE, "not served, or you may not read it")
    if not installation.limits.existing:
        meaning = "a stolen token can do all that its role allows (components/account-limits)"
        return Check(LIMITS, CheckState.NOTE, "not installed", meaning)
    return _bound(LIMITS, installation.limits, "those policies limit nothing")


def _bound(subject: str, policies: Policies, without: str) -> Check:
    loose = sorted(policies.existing - policies.bound)
    if loose:
        return Check(subject, CheckState.PROBLEM, f"without a binding: {', '.join(loose)}", without)
    count = len(policies.existing)
    return Check(subject, CheckState.OK, f"{count} {'policy' if count == 1 else 'policies'}, bound")


def _alerts(installation: Installation) -> Check:
    if installation.alerts:
        return Check(
            ALERTS, CheckState.OK, f"{installation.alerts} PrometheusRule{'s' if installation.alerts > 1 else ''}"
        )
    meaning = "no one is alerted when no controller leads or binds fail (components/alerts, or the rules in its file)"
    return Check(ALERTS, CheckState.NOTE, "no PrometheusRule of ours found", meaning)


def not_in_time(waited: timedelta) -> Check:
    """Return the line for an installation that does not work after that long."""
    meaning = "no controller leads yet, or a problem above is left"
    return Check("wait", CheckState.PROBLEM, f"not ready within {format_duration(waited)}", meaning)
