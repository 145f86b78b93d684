import pytest

from kube.objects.api_resource import CAPACITIES, CSI_DRIVERS, DISRUPTION_BUDGETS, EVENTS, LEASES, NAMESPACES, WATCHED
from prebinder.preflight.doctor_checks import (
    GATE_POLICIES,
    CheckState,
    Served,
    check_gating,
    check_rights,
    check_served,
    check_version,
    parse_version,
    unserved,
)
from prebinder.preflight.requirements import CONTROLLER, SCHEDULER, SCHEDULER_KINDS

ALL_SERVED = {
    api: [resource.plural for resource in (*WATCHED, NAMESPACES, LEASES, EVENTS) if resource.api_version == api]
    for api in ("v1", "storage.k8s.io/v1", "coordination.k8s.io/v1", "events.k8s.io/v1")
}


@pytest.mark.parametrize(
    ("text", "version"), [("v1.36.3", (1, 36)), ("1.27+", (1, 27)), ("v1.30.1-gke.5", (1, 30)), ("odd", None)]
)
def test_reads_versions(text: str, version: tuple[int, int] | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("v1.36.3", CheckState.OK),
        ("v1.27.0", CheckState.OK),
        ("v1.26.9", CheckState.PROBLEM),
        ("v1.38.0", CheckState.NOTE),
        ("v2.0.0", CheckState.NOTE),
        ("", CheckState.PROBLEM),
    ],
)
def test_judges_the_version(text: str, state: CheckState) -> None:
    assert check_version(text).state is state


def test_what_is_served_is_fine() -> None:
    checks = list(check_served(ALL_SERVED, CONTROLLER.kinds))
    assert [check.state for check in checks] == [CheckState.OK] * 4


@pytest.mark.parametrize(
    ("served", "subject", "meaning"),
    [
        (ALL_SERVED | {"events.k8s.io/v1": ()}, "API events.k8s.io/v1", "no Events are written"),
        (ALL_SERVED | {"v1": ["pods"]}, "API v1", "no decisions can be made"),
        (ALL_SERVED | {"coordination.k8s.io/v1": ["x"]}, "API coordination.k8s.io/v1", "no replica becomes leader"),
    ],
)
def test_says_what_does_not_work_without_a_kind(served: Served, subject: str, meaning: str) -> None:
    [problem] = [check for check in check_served(served, CONTROLLER.kinds) if check.state is CheckState.PROBLEM]
    assert problem.subject == subject
    assert problem.meaning.startswith(meaning)


def test_rights_that_are_granted_are_one_line() -> None:
    wanted = CONTROLLER.rights
    assert [check.found for check in check_rights(dict.fromkeys(wanted, True))] == [
        f"{len(wanted)} of {len(wanted)} granted"
    ]


def test_a_missing_right_says_what_for() -> None:
    answers = {need: str(need) not in {"patch persistentvolumes", "patch pods"} for need in CONTROLLER.rights}
    _, vital, feature = check_rights(answers)
    assert (vital.subject, vital.state, vital.meaning) == (
        "patch persistentvolumes",
        CheckState.PROBLEM,
        "nothing can be reserved",
    )
    assert (feature.subject, feature.state) == ("patch pods", CheckState.NOTE)


def test_unknown_rights_are_not_taken_for_missing() -> None:
    [check] = check_rights(dict.fromkeys(CONTROLLER.rights))
    assert check.state is CheckState.NOTE


def test_what_could_not_be_learned_is_not_taken_for_missing() -> None:
    served = ALL_SERVED | {"events.k8s.io/v1": None}
    [check] = [check for check in check_served(served, CONTROLLER.kinds) if check.state is not CheckState.OK]
    assert (check.state, check.found) == (CheckState.NOTE, "unknown")
    assert unserved(served, CONTROLLER.kinds) == ()


def test_the_scheduler_does_without_some_kinds_and_says_what_that_means() -> None:
    served = ALL_SERVED | {"policy/v1": (), "storage.k8s.io/v1": ["storageclasses", "csinodes", "volumeattachments"]}
    checks = {
        check.subject: check for check in check_served(served, SCHEDULER.kinds) if check.state is not CheckState.OK
    }
    assert {check.state for check in checks.values()} == {CheckState.NOTE}
    assert checks["API storage.k8s.io/v1"].meaning == "storage capacity is ignored"
    assert checks["API policy/v1"].meaning.startswith("preemption ignores")
    assert set(unserved(served, SCHEDULER_KINDS)) == {CSI_DRIVERS, CAPACITIES, DISRUPTION_BUDGETS}


def test_rights_to_subresources_are_reported_as_the_manifests_write_them() -> None:
    assert "create pods/binding" in map(str, SCHEDULER.rights)


@pytest.mark.parametrize(
    ("policies", "state", "result"),
    [
        (
            ["validatingadmissionpolicies", GATE_POLICIES],
            CheckState.OK,
            "possible by components/gate-policy, or in pod templates",
        ),
        (["validatingadmissionpolicies"], CheckState.NOTE, "in pod templates only"),
        ((), CheckState.NOTE, "in pod templates only"),
        (None, CheckState.NOTE, "in pod templates"),
    ],
)
def test_how_pods_can_be_gated(policies: list[str] | None, state: CheckState, result: str) -> None:
    check = check_gating(policies)
    assert (check.state, check.found) == (state, result)
