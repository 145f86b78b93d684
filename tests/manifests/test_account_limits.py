"""The admission policies name the accounts they limit, concern no other account, and fail closed."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from binder.reservation.contract import DEFAULT_PREFIX
from kube.leaderelection.lease import MAX_DURATION_SECONDS, LeaseTiming
from tests.manifests.tools import KUSTOMIZE_VERSIONS, overlay_of_base
from tests.scenarios.processes.controller import policies

MANIFESTS = Path(__file__).parents[2] / "manifests"
DOCUMENTS = [
    *(document for component in ("account-limits", "csi-agent-limits") for document in policies(component)),
    *yaml.safe_load_all((MANIFESTS / "uninstall" / "limits.yaml").read_text()),
]
POLICIES = {
    document["metadata"]["name"]: document for document in DOCUMENTS if document["kind"] == "ValidatingAdmissionPolicy"
}
BINDINGS = {
    document["spec"]["policyName"]: document
    for document in DOCUMENTS
    if document["kind"] == "ValidatingAdmissionPolicyBinding"
}
USER = "system:serviceaccount:pvc-prebinder-system:"


def written_by(*files: str) -> set[str]:
    """Return the resources that the roles in these files let an account change or create."""
    rules: list[dict[str, Any]] = [
        rule
        for file in files
        for document in yaml.safe_load_all((MANIFESTS / file).read_text())
        for rule in document.get("rules", ())
    ]
    return {resource for rule in rules for resource in rule["resources"] if {"create", "patch"} & set(rule["verbs"])}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_concerns_one_account_and_fails_closed(name: str) -> None:
    spec = POLICIES[name]["spec"]
    (condition,) = spec["matchConditions"]
    assert condition["expression"].startswith("request.userInfo.username ")
    assert spec["failurePolicy"] == "Fail"
    assert BINDINGS[name]["spec"] == {"policyName": name, "validationActions": ["Deny"]}
    if "variables.prefix" in yaml.safe_dump(spec):
        assert {"name": "prefix", "expression": f"'{DEFAULT_PREFIX}'"} in spec["variables"]


@pytest.mark.parametrize(
    ("account", "files"),
    [
        (
            "pvc-prebinder",
            [
                "base/cluster_role.yaml",
                "base/lease_role.yaml",
                "components/complete/cluster_role.yaml",
                "components/scheduling-gate/cluster_role.yaml",
            ],
        ),
        (
            "pvc-prebinder-scheduler",
            ["components/scheduler/cluster_role.yaml", "components/scheduler/lease_role.yaml"],
        ),
        ("pvc-prebinder-uninstall", ["uninstall/role.yaml"]),
    ],
)
def test_everything_an_account_may_write_is_limited(account: str, files: list[str]) -> None:
    limited = {
        resource
        for policy in POLICIES.values()
        if policy["spec"]["matchConditions"][0]["expression"].endswith(f"'{USER}{account}'")
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
    }
    for resource in written_by(*files):
        assert resource in limited or f"{resource.partition('/')[0]}/*" in limited


def test_everything_the_agent_may_write_is_limited() -> None:
    limited = {
        resource
        for document in policies("csi-agent-limits")
        if document["kind"] == "ValidatingAdmissionPolicy"
        for rule in document["spec"]["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
    }
    assert written_by("components/csi-agent/cluster_role.yaml", "components/csi-agent/lease_role.yaml") <= limited


def test_a_lease_may_last_as_long_as_ours_do_and_not_much_longer() -> None:
    bound = re.compile(r"leaseDurationSeconds\.orValue\(0\) <= (\d+)")
    stated = {
        int(match[1]) for policy in POLICIES.values() for match in bound.finditer(yaml.safe_dump(policy, width=1000))
    }
    assert stated == {MAX_DURATION_SECONDS}
    assert LeaseTiming().duration <= MAX_DURATION_SECONDS


@pytest.mark.parametrize("version", KUSTOMIZE_VERSIONS)
def test_the_page_inserts_another_namespace_and_prefix(version: str) -> None:
    page = (MANIFESTS.parent / "docs" / "security.md").read_text()
    example = re.search(r"```yaml\n(namespace: .*?)```", page, re.DOTALL)
    assert example
    components = ("complete", "scheduling-gate", "scheduler", "account-limits")
    made = overlay_of_base(components, version, **yaml.safe_load(example[1]))
    made = [each for each in made if each["kind"] == "ValidatingAdmissionPolicy"]
    assert len(made) == len([each for each in policies("account-limits") if each["kind"] == made[0]["kind"]])
    for policy in made:
        (condition,) = policy["spec"]["matchConditions"]
        assert "'system:serviceaccount:storage-system:pvc-prebinder" in condition["expression"]
        assert DEFAULT_PREFIX not in yaml.safe_dump(policy)
        if "variables.prefix" in yaml.safe_dump(policy):
            assert "'storage.example.com/'" in {each["expression"] for each in policy["spec"]["variables"]}
