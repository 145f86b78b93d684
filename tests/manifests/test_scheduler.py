"""The scheduler's component: exactly the rights it uses, a restricted pod, a configuration that can be read."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.objects.api_resource import PODS
from prebinder.command_line.flags import settings_from
from prebinder.commands.run.scheduler import SCHEDULER_FLAGS, reject_unclear
from prebinder.config.scheduler_settings import SchedulerSettings, SchedulingSettings
from prebinder.config.settings import parse_address
from prebinder.preflight.requirements import SCHEDULER
from prebinder.scheduler.plugin_failures import PluginFailures
from prebinder.scheduler.profiles import configuration_for
from prebinder.scheduler.watches import AROUND

DIRECTORY = Path(__file__).parents[2] / "manifests" / "components" / "scheduler"
NAME = "pvc-prebinder-scheduler"
READ = {"get", "list", "watch"}
WRITTEN = {
    ("", "pods/binding"): {"create"},
    ("", "pods/eviction"): {"create"},
    ("", "pods/status"): {"patch"},
    ("", "persistentvolumeclaims"): {"patch"},
    ("", "persistentvolumes"): {"patch"},
    ("events.k8s.io", "events"): {"create", "patch"},
}


@cache
def documents() -> tuple[dict[str, Any], ...]:
    return tuple(
        document for file in sorted(DIRECTORY.glob("*.yaml")) for document in yaml.safe_load_all(file.read_text())
    )


def only(kind: str) -> dict[str, Any]:
    (selected,) = (document for document in documents() if document["kind"] == kind)
    return selected


def pod() -> dict[str, Any]:
    return only("Deployment")["spec"]["template"]["spec"]  # type: ignore[no-any-return]


def container() -> dict[str, Any]:
    (single,) = pod()["containers"]
    return single  # type: ignore[no-any-return]


def granted() -> dict[tuple[str, str], set[str]]:
    verbs: dict[tuple[str, str], set[str]] = {}
    for rule in only("ClusterRole")["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs.setdefault((group, resource), set()).update(rule["verbs"])
    return verbs


def settings() -> SchedulerSettings:
    return settings_from(SchedulerSettings(), SCHEDULER_FLAGS, container()["args"][1:])


def test_it_may_read_what_it_watches_and_write_what_scheduling_takes_and_nothing_else() -> None:
    watched = {(resource.group, resource.plural): READ for resource in (*AROUND, PODS)}
    expected = {key: watched.get(key, set()) | WRITTEN.get(key, set()) for key in watched.keys() | WRITTEN.keys()}
    assert granted() == expected


def test_doctor_checks_rights_that_are_granted() -> None:
    lease = {verb for rule in only("Role")["rules"] for verb in rule["verbs"]}
    for need in SCHEDULER.rights:
        plural = f"{need.resource.plural}/{need.subresource}" if need.subresource else need.resource.plural
        verbs = lease if plural == "leases" else granted()[need.resource.group, plural]
        assert need.verb in verbs, str(need)


def test_the_lease_is_limited_to_its_name_except_for_its_creation() -> None:
    create, rest = only("Role")["rules"]
    assert (create["verbs"], create["resources"]) == (["create"], ["leases"])
    assert rest["resourceNames"] == [settings().leader_election.name] == [SCHEDULER.lease]
    assert set(rest["verbs"]) == {"get", "patch"}


@pytest.mark.parametrize("kind", ["ClusterRoleBinding", "RoleBinding"])
def test_the_bindings_are_to_its_own_account(kind: str) -> None:
    (subject,) = only(kind)["subjects"]
    assert only(kind)["roleRef"]["name"] == NAME
    assert subject["name"] == only("ServiceAccount")["metadata"]["name"] == pod()["serviceAccountName"] == NAME


def test_the_pod_meets_the_restricted_standard() -> None:
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["securityContext"]["runAsUser"] > 0
    assert pod()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_it_does_not_wait_for_itself_to_be_scheduled() -> None:
    assert "schedulerName" not in pod()


def test_its_configuration_is_mounted_where_it_looks_and_can_be_read() -> None:
    reject_unclear(settings().scheduling)
    path = Path(settings().scheduling.config or "")
    (mount,) = (volume_mount for volume_mount in container()["volumeMounts"] if volume_mount["name"] == "config")
    (volume,) = (volume for volume in pod()["volumes"] if volume["name"] == "config")
    (generator,) = only("Component")["configMapGenerator"]
    assert str(path.parent) == mount["mountPath"]
    assert volume["configMap"]["name"] == generator["name"]
    assert generator["files"] == [path.name]
    assert generator["options"]["disableNameSuffixHash"] is True
    configuration = configuration_for(SchedulingSettings(config=str(DIRECTORY / path.name)), PluginFailures())
    assert list(configuration.current.profiles) == ["zone-scheduler"]


def test_ports_are_those_it_serves() -> None:
    serving = settings().serving
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    addresses = {"metrics": serving.metrics_bind_address, "health": serving.health_bind_address}
    assert ports == {name: (parse_address(text) or ("", 0))[1] for name, text in addresses.items()}
    labels = only("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert only("Service")["spec"]["selector"].items() <= labels.items()
