"""What `kubectl apply -k` takes: least privilege, the restricted Pod Security Standard, and names that fit together."""

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.build import binaries
from devcluster.build.modules import control_plane
from prebinder.config import config_file
from prebinder.config.settings import Settings, parse_address
from prebinder.preflight.requirements import CONTROLLER

MANIFESTS = Path(__file__).parents[2] / "manifests"
READ = {"get", "list", "watch"}
OBJECTS = {
    ("", "persistentvolumeclaims"): READ | {"patch"},
    ("", "persistentvolumes"): READ | {"patch"},
    ("", "pods"): READ,
    ("", "nodes"): READ,
    **{
        ("storage.k8s.io", plural): READ
        for plural in ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments")
    },
    ("events.k8s.io", "events"): {"create", "patch"},
}
ADDED = {
    "components/complete": {
        ("", "persistentvolumeclaims/status"): {"patch"},
        ("", "persistentvolumes/status"): {"patch"},
    },
    "components/scheduling-gate": {("", "pods"): {"patch"}},
    "components/holds": {
        ("apps", "statefulsets"): READ,
        ("", "namespaces"): READ,
        ("", "resourcequotas"): READ,
    },
    "components/karpenter": {("karpenter.sh", "nodepools"): {"list"}},
    "components/snapshots": {
        ("snapshot.storage.k8s.io", "volumesnapshots"): {"get"},
        ("snapshot.storage.k8s.io", "volumesnapshotcontents"): {"get"},
    },
}


@cache
def documents(directory: str = "base") -> tuple[dict[str, Any], ...]:
    files = sorted((MANIFESTS / directory).glob("*.yaml"))
    return tuple(document for file in files for document in yaml.safe_load_all(file.read_text()))


def only(kind: str, directory: str = "base") -> dict[str, Any]:
    matching = [
        document
        for document in documents(directory)
        if document.get("kind") == kind and document["metadata"]["name"] != "pvc-prebinder-view"
    ]
    assert len(matching) == 1, kind
    return matching[0]


def rights(rules: list[dict[str, Any]]) -> dict[tuple[str, str], set[str]]:
    granted: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                granted.setdefault((group, resource), set()).update(rule["verbs"])
    return granted


@cache
def rendered() -> tuple[dict[str, Any], ...]:
    """What kustomize makes of the base, as the API server gets it."""
    kubectl = binaries.ensure([control_plane()])["kubectl"]
    text = subprocess.run([kubectl, "kustomize", MANIFESTS / "base"], capture_output=True, check=True, text=True).stdout
    return tuple(yaml.safe_load_all(text))


def test_the_controller_may_do_what_it_does_and_nothing_else() -> None:
    assert rights(only("ClusterRole")["rules"]) == OBJECTS


@pytest.mark.parametrize("component", ADDED)
def test_a_component_adds_what_its_feature_needs_and_nothing_else(component: str) -> None:
    assert rights(only("ClusterRole", component)["rules"]) == ADDED[component]


def test_the_lease_is_limited_to_its_name_except_for_its_creation() -> None:
    create, rest = only("Role")["rules"]
    assert (create["verbs"], create["resources"]) == (["create"], ["leases"])
    assert rest["resourceNames"] == [Settings().leader_election.name]
    assert set(rest["verbs"]) == {"get", "patch"}


def test_doctor_checks_every_right_to_write_that_is_granted() -> None:
    checked = {(f"{need.resource.plural}/{need.subresource}".rstrip("/"), need.verb) for need in CONTROLLER.rights}
    granted = [OBJECTS, *ADDED.values()]
    written = {(plural, verb) for some in granted for (_, plural), verbs in some.items() for verb in verbs - {"get"}}
    assert written <= checked


@pytest.mark.parametrize("directory", ["base", *ADDED])
def test_no_wildcard_no_delete_no_secret(directory: str) -> None:
    roles = [document for document in documents(directory) if document["kind"] in {"ClusterRole", "Role"}]
    for role in roles:
        words = {word for rule in role["rules"] for words in rule.values() for word in words}
        assert not words & {"*", "delete", "deletecollection", "secrets", "escalate", "bind", "impersonate"}


@pytest.mark.parametrize("directory", ["base", *ADDED])
def test_bindings_name_the_service_account(directory: str) -> None:
    for document in documents(directory):
        if document["kind"] in {"ClusterRoleBinding", "RoleBinding"}:
            assert [subject["name"] for subject in document["subjects"]] == ["pvc-prebinder"]


def test_the_pod_meets_the_restricted_standard() -> None:
    pod = only("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert only("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_image_and_pod_run_as_the_same_user() -> None:
    user = only("Deployment")["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
    assert f"\nUSER {user}:{user}\n" in (MANIFESTS.parent / "Containerfile").read_text()


def test_ports_are_those_the_configuration_serves() -> None:
    configured = config_file.CONTROLLER.parse((MANIFESTS / "base" / "config.yaml").read_text()).serving
    (container,) = only("Deployment")["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["metrics"] == (parse_address(configured.metrics_bind_address) or ("", 0))[1]
    assert ports["health"] == (parse_address(configured.health_bind_address) or ("", 0))[1]
    assert {container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {"health"}


def strings(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


def test_kustomize_leaves_the_name_of_the_lease_alone() -> None:
    """It rewrites names of ConfigMaps it hashes wherever it takes a name for a reference, resourceNames included."""
    (role,) = [document for document in rendered() if document["kind"] == "Role"]
    assert role["rules"][1]["resourceNames"] == ["pvc-prebinder"]
    (config,) = [document for document in rendered() if document["kind"] == "ConfigMap"]
    (deployment,) = [document for document in rendered() if document["kind"] == "Deployment"]
    assert config["metadata"]["name"] in set(strings(deployment))


def test_everything_lives_in_one_namespace() -> None:
    cluster_scoped = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
    namespaced = [document for document in rendered() if document["kind"] not in cluster_scoped]
    assert {document["metadata"]["namespace"] for document in namespaced} == {"pvc-prebinder-system"}
