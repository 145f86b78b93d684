"""What `doctor` says of an installation: the running thing, not what the cluster could offer."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from binder.model.decision import Mode
from prebinder.preflight.doctor_checks import Check, CheckState
from prebinder.preflight.installation_checks import (
    Installation,
    InstalledPod,
    InUse,
    Policies,
    installation_checks,
    leads,
)
from prebinder.preflight.requirements import CONTROLLER, HOLDS, KARPENTER, SNAPSHOTS, Need
from tests.builders import EPOCH
from why.facts.details import LeaseDetails

NOW = EPOCH + timedelta(hours=1)
RIGHTS: Mapping[Need, bool | None] = dict.fromkeys(CONTROLLER.rights, True)
BOTH = frozenset({"pvc-prebinder-pods", "pvc-prebinder-volumes"})


def held(holder: str, renewed: datetime) -> LeaseDetails:
    return LeaseDetails("pvc-prebinder-system", "pvc-prebinder", holder, renewed, duration=15.0)


FINE = Installation(
    namespace="pvc-prebinder-system",
    pods=[
        InstalledPod("pvc-prebinder-a", "controller", "0.1.0", "pvc-prebinder", is_ready=True),
        InstalledPod("pvc-prebinder-b", "controller", "0.1.0", "pvc-prebinder", is_ready=True),
    ],
    lease=held("pvc-prebinder-a_1", NOW - timedelta(seconds=2)),
    lease_name="pvc-prebinder",
    rights=RIGHTS,
    gate=Policies(frozenset({"pvc-prebinder-gate"}), frozenset({"pvc-prebinder-gate"})),
    limits=Policies(BOTH, BOTH),
    alerts=1,
)
STATUS = {need: need.subresource != "status" for need in CONTROLLER.rights}


def checks(installation: Installation, *modes: Mode, version: str = "0.1.0") -> dict[str, Check]:
    return by_subject(installation, InUse(frozenset(modes)), version)


def by_subject(installation: Installation, in_use: InUse, version: str = "0.1.0") -> dict[str, Check]:
    return {check.subject: check for check in installation_checks(installation, in_use, version, NOW)}


def test_a_whole_installation_is_fine() -> None:
    assert {check.state for check in checks(FINE, Mode.COMPLETE).values()} == {CheckState.OK}
    assert checks(FINE)["controller"].found == "2 of 2 pods ready"
    assert checks(FINE)["Lease pvc-prebinder-system/pvc-prebinder"].found == ("held by pvc-prebinder-a, renewed 2s ago")


def test_without_an_installation_there_is_one_note() -> None:
    (check,) = checks(replace(FINE, pods=[], lease=None)).values()
    assert (check.subject, check.state, check.found) == (
        "installation",
        CheckState.NOTE,
        "none in namespace pvc-prebinder-system",
    )


LEASE = "Lease pvc-prebinder-system/pvc-prebinder"
STALE = held("pvc-prebinder-a_1", NOW - timedelta(minutes=3))


@pytest.mark.parametrize(
    ("installation", "subject", "text"),
    [
        pytest.param(replace(FINE, pods=[]), "controller", "no pod in namespace pvc-prebinder-system", id="no pod"),
        pytest.param(
            replace(FINE, pods=[replace(FINE.pods[0], is_ready=False)] if FINE.pods else []),
            "controller",
            "0 of 1 pods ready",
            id="none ready",
        ),
        pytest.param(replace(FINE, lease=None), LEASE, "does not exist, or you may not read it", id="no Lease"),
        pytest.param(replace(FINE, lease=held("", NOW)), LEASE, "held by no one", id="released"),
        pytest.param(replace(FINE, lease=STALE), LEASE, "pvc-prebinder-a renewed it 3m ago", id="stale"),
        pytest.param(
            replace(FINE, gate=Policies(frozenset({"g"}), frozenset())),
            "gate policy",
            "without a binding: g",
            id="gate unbound",
        ),
        pytest.param(
            replace(FINE, limits=Policies(BOTH, frozenset({"pvc-prebinder-pods"}))),
            "account limits",
            "without a binding: pvc-prebinder-volumes",
            id="limits unbound",
        ),
    ],
)
def test_what_does_not_work_is_a_problem(installation: Installation, subject: str, text: str) -> None:
    check = checks(installation)[subject]
    assert (check.state, check.found) == (CheckState.PROBLEM, text)


def test_mode_complete_on_a_class_without_the_component_is_a_problem() -> None:
    installation = replace(FINE, rights=STATUS)
    subject = "rights of pvc-prebinder-system/pvc-prebinder"
    assert checks(installation, Mode.PREBIND)[subject].state is CheckState.OK
    missing = checks(installation, Mode.COMPLETE)[f"{subject}: patch persistentvolumes/status"]
    assert missing.state is CheckState.PROBLEM
    assert "component complete" in missing.meaning


def test_gated_pods_of_a_class_with_a_mode_need_the_right_to_remove_the_gate() -> None:
    gate = next(need for need in CONTROLLER.rights if str(need) == "patch pods")
    installation = replace(FINE, rights={**RIGHTS, gate: False})
    subject = f"rights of pvc-prebinder-system/pvc-prebinder: {gate}"
    assert subject not in checks(installation)
    assert checks(installation, Mode.PREBIND)[subject].state is CheckState.PROBLEM


def without(*parts: str) -> Installation:
    return replace(FINE, rights={need: need.part not in parts for need in CONTROLLER.rights})


@pytest.mark.parametrize(
    ("in_use", "noted"),
    [
        pytest.param(InUse(frozenset({Mode.COMPLETE})), {HOLDS}, id="nothing of them"),
        pytest.param(InUse(frozenset({Mode.PREBIND}), new_nodes=True), {HOLDS, KARPENTER}, id="new nodes"),
        pytest.param(InUse(frozenset({Mode.PROVISION})), {HOLDS, SNAPSHOTS}, id="mode provision"),
    ],
)
def test_a_component_that_is_left_out_is_no_problem(in_use: InUse, noted: set[str]) -> None:
    by_name = by_subject(without(HOLDS, KARPENTER, SNAPSHOTS), in_use)
    assert {subject for subject, check in by_name.items() if check.state is not CheckState.OK} == noted
    assert {by_name[part].found for part in noted} == {"not installed"}


def test_half_of_a_component_is_a_problem() -> None:
    quotas = [need for need in CONTROLLER.rights if need.part == HOLDS and need.resource.plural == "resourcequotas"]
    check = checks(replace(FINE, rights={**RIGHTS, **dict.fromkeys(quotas, False)}))[HOLDS]
    assert (check.state, check.found) == (
        CheckState.PROBLEM,
        "not granted: list resourcequotas, watch resourcequotas",
    )


@pytest.mark.parametrize(
    ("installation", "subject"),
    [
        pytest.param(replace(FINE, gate=Policies(frozenset(), frozenset())), "gate policy", id="no gate policy"),
        pytest.param(replace(FINE, limits=Policies(frozenset(), frozenset())), "account limits", id="no limits"),
        pytest.param(replace(FINE, alerts=0), "alerts", id="no alerts"),
        pytest.param(replace(FINE, gate=None), "gate policy", id="gate unknown"),
        pytest.param(
            replace(FINE, rights=dict.fromkeys(CONTROLLER.rights)),
            "rights of pvc-prebinder-system/pvc-prebinder",
            id="rights unknown",
        ),
    ],
)
def test_what_is_optional_or_unknown_is_a_note(installation: Installation, subject: str) -> None:
    assert checks(installation)[subject].state is CheckState.NOTE


def test_another_version_is_named() -> None:
    assert checks(FINE, version="0.2.0")["version"].found == "0.1.0 runs; this command is 0.2.0"


def test_a_controller_leads_while_its_lease_is_fresh() -> None:
    assert leads(FINE, NOW)
    assert not leads(FINE, NOW + timedelta(seconds=14))
    assert not leads(replace(FINE, lease=None), NOW)
