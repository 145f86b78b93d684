"""The admission policies name the accounts they limit, concern no other account, and fail closed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from binder.reservation.contract import DEFAULT_PREFIX
from tests.scenarios.processes.controller import policies

MANIFESTS = Path(__file__).parents[2] / "manifests"
POLICIES = {
    document["metadata"]["name"]: document
    for component in ("account-limits", "csi-agent-limits")
    for document in policies(component)
    if document["kind"] == "ValidatingAdmissionPolicy"
}
BINDINGS = {
    document["spec"]["policyName"]: document
    for component in ("account-limits", "csi-agent-limits")
    for document in policies(component)
    if document["kind"] == "ValidatingAdmissionPolicyBinding"
}
USER = "system:serviceaccount:pvc-prebinder-system:"


def written_by(*files: str) -> set[str]:
    """Return the resources that the roles in these files let an account patch, Events and Leases aside."""
    rules: list[dict[str, Any]] = [
        rule
        for file in files
        for document in yaml.safe_load_all((MANIFESTS / file).read_text())
        for rule in document.get("rules", ())
    ]
    return {resource for rule in rules for resource in rule["resources"] if "patch" in rule["verbs"]} - {"events"}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_concerns_one_account_and_fails_closed(name: str) -> None:
    spec = POLICIES[name]["spec"]
    (condition,) = spec["matchConditions"]
    assert condition["expression"].startswith("request.userInfo.username ")
    assert spec["failurePolicy"] == "Fail"
    assert BINDINGS[name]["spec"] == {"policyName": name, "validationActions": ["Deny"]}
    assert {"name": "prefix", "expression": f"'{DEFAULT_PREFIX}'"} in spec["variables"]


@pytest.mark.parametrize(
    ("account", "files"),
    [
        (
            "pvc-prebinder",
            [
                "base/cluster_role.yaml",
                "components/complete/cluster_role.yaml",
                "components/scheduling-gate/cluster_role.yaml",
            ],
        ),
        ("pvc-prebinder-scheduler", ["components/scheduler/cluster_role.yaml"]),
    ],
)
def test_everything_an_account_may_patch_is_limited(account: str, files: list[str]) -> None:
    limited = {
        resource
        for policy in POLICIES.values()
        if policy["spec"]["matchConditions"][0]["expression"].endswith(f"'{USER}{account}'")
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
    }
    for resource in written_by(*files):
        assert resource in limited or f"{resource.partition('/')[0]}/*" in limited
