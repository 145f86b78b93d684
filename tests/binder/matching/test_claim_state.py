"""Each state of a claim, which of several applies, and the one text that all rooms use for it."""

import pytest

from binder.matching.claim_state import ClaimState, claim_state, state_rejection, unusable_state
from binder.matching.rejection import Reason
from kube.objects.model import BIND_COMPLETED, SELECTED_NODE, Claim
from tests.builders import claim, storage_class

CLASSES = {
    "fast": storage_class("fast"),
    "at-once": storage_class("at-once", binding_mode="Immediate"),
    "unclear": storage_class("unclear", binding_mode=None),
}
COMPLETED, SELECTED = {BIND_COMPLETED: "yes"}, {SELECTED_NODE: "n"}
NOT_BOUND = Reason.IMMEDIATE_CLAIM


@pytest.mark.parametrize(
    ("subject", "owner", "state", "text"),
    [
        (None, "", ClaimState.MISSING, (Reason.CLAIM_NOT_FOUND, "none")),
        (claim("data", phase="Lost", deleting=True), "", ClaimState.LOST, (Reason.CLAIM_LOST, "phase Lost")),
        (claim("data", deleting=True), "pod", ClaimState.DELETING, (Reason.CLAIM_DELETING, "being deleted")),
        (claim("data"), "pod", ClaimState.NOT_OWNED, (Reason.CLAIM_NOT_OWNED, "no owner")),
        (claim("data", volume_name="v", annotations=COMPLETED), "", ClaimState.BOUND, None),
        (claim("data", volume_name="v"), "", ClaimState.NAMED, (NOT_BOUND, "requests volume v, not bound yet")),
        (
            claim("data", storage_class="unclear", volume_name="v"),
            "",
            ClaimState.MODE_MISSING,
            (Reason.BINDING_MODE_MISSING, "none"),
        ),
        (
            claim("data", storage_class="gone"),
            "",
            ClaimState.CLASS_MISSING,
            (NOT_BOUND, "unbound, class gone does not exist"),
        ),
        (
            claim("data", storage_class="at-once"),
            "",
            ClaimState.IMMEDIATE,
            (NOT_BOUND, "unbound, class at-once binds immediately"),
        ),
        (claim("data", storage_class=""), "", ClaimState.IMMEDIATE, (NOT_BOUND, "unbound, without a class")),
        (claim("data", annotations=COMPLETED), "", ClaimState.HALF_BOUND, None),
        (claim("data", annotations=SELECTED), "", ClaimState.SELECTED, None),
        (claim("data"), "", ClaimState.OPEN, None),
    ],
    ids=lambda value: value.name if isinstance(value, ClaimState) else "",
)
def test_the_first_state_that_applies_has_its_own_text(
    subject: Claim | None, owner: str, state: ClaimState, text: tuple[Reason, str] | None
) -> None:
    assert claim_state(subject, CLASSES, owner) is state
    assert unusable_state(subject, owner) is (state if state.value <= ClaimState.NOT_OWNED.value else None)
    rejection = state_rejection("default/data", subject, state)
    assert (rejection and (rejection.reason, rejection.offered)) == text
    assert rejection is None or rejection.subject == "default/data"
