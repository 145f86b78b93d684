"""What others than the driver's controller say about a volume, as verdicts; and what several sources mean together.

Read from the claim a volume is bound to: the native field of Kubernetes 1.37 (KEP-1432, `status.healthStatus`), and
the annotations of csi-addons' Volume Condition Reporter, one for each node.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from csi.interpret import LONGEST_REASON, Witness, printable
from csi.verdict import SICK, HealthState, Verdict, badness
from kube.model import Claim, HealthCondition, Pairs

ADDONS_PREFIX: Final = "csiaddons.openshift.io/volumehealth."
"""Followed by the node's uid: kubernetes-csi-addons, docs/volume-condition.md."""

_SICK: Final = {str(state): state for state in SICK}


class _Annotation(msgspec.Struct, rename="camel"):
    state: str
    last_checked: datetime
    node: str = ""


_ANNOTATION: Final = msgspec.json.Decoder(_Annotation)


def native_verdict(conditions: Sequence[HealthCondition], now: datetime) -> Verdict | None:
    """Return what the claim's healthConditions say, None without any known one: then nobody wrote the field.

    The field carries no time of its own, so the verdict is of `now`; it holds until Kubernetes removes the condition.
    """
    known = [condition for condition in conditions if condition.status in _SICK]
    if not known:
        return None
    worst = max(known, key=lambda condition: badness(_SICK[condition.status]))
    state = _SICK[worst.status]
    reason = printable(worst.reason, LONGEST_REASON) or str(state)
    return Witness("status.healthStatus of the claim", now).says(state, reason, worst.message)


def addons_verdicts(annotations: Pairs) -> Iterator[Verdict]:
    """Yield a verdict for each node that reported; one that cannot be read is left out.

    "unhealthy" is what VolumeCondition calls abnormal: not operating optimally.
    """
    for key, value in annotations:
        if not key.startswith(ADDONS_PREFIX):
            continue
        try:
            said = _ANNOTATION.decode(value)
        except (msgspec.MsgspecError, ValueError):
            continue
        if said.last_checked.tzinfo is None or said.state not in ("healthy", "unhealthy"):
            continue
        node = said.node or f"the node {key.removeprefix(ADDONS_PREFIX)}"
        witness = Witness(f"csi-addons on {printable(node, LONGEST_REASON)}", said.last_checked)
        well = said.state == "healthy"
        state = HealthState.HEALTHY if well else HealthState.DEGRADED
        yield witness.says(state, "VolumeConditionNormal" if well else "VolumeConditionAbnormal", "")


def claim_verdicts(claim: Claim, now: datetime) -> Iterator[Verdict]:
    """Yield all that is said of a claim's volume on the claim itself."""
    native = native_verdict(claim.health_conditions, now)
    if native is not None:
        yield native
    yield from addons_verdicts(claim.annotations)


def combined(verdict: Verdict, others: Iterable[Verdict]) -> Verdict:
    """Return the worst of all, the driver's own `verdict` among equals; who says otherwise is named in the message.

    The place, of which only the driver speaks, is kept.
    """
    everybody = [verdict, *others]
    worst = max(everybody, key=lambda one: badness(one.state))
    contrary = [f"{one.source} says {one.state} ({one.reason})" for one in everybody if one.state is not worst.state]
    message = printable("; but ".join(filter(None, [worst.message, *contrary])))
    return Verdict(worst.state, worst.reason, message, worst.source, worst.observed_at, verdict.topology)
