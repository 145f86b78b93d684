"""What kustomize makes of manifests/: the same by every version, with names, labels and images that fit together."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from binder.model.decision import Mode
from binder.reservation.contract import DEFAULT_PREFIX, Annotations
from prebinder.commands.uninstall import command as uninstall
from prebinder.config import config_file
from tests.manifests.tools import (
    KUSTOMIZE_VERSIONS,
    MANIFESTS,
    Document,
    built,
    by_name,
    overlay_of_base,
    relative,
    write_kustomization,
)
from tests.scenarios.processes.agent import write_overlay

SYSTEM = "pvc-prebinder-system"
NAME, COMPONENT = "app.kubernetes.io/name", "app.kubernetes.io/component"
LAST = "cluster-critical"
"""It reaches the Deployments of the components before it."""
COMPONENTS = (
    *sorted(
        path.name
        for path in (MANIFESTS / "components").iterdir()
        if path.name != LAST and not path.name.startswith("csi-agent")
    ),
    LAST,
)
OVERLAYS = tuple(sorted(path.name for path in (MANIFESTS / "overlays").iterdir()))


@cache
def everything(version: str = "current") -> tuple[Document, ...]:
    return tuple(overlay_of_base(COMPONENTS, version))


@cache
def agent(version: str = "current") -> tuple[Document, ...]:
    return tuple(_agent(version))


def _agent(version: str, **more: object) -> list[Document]:
    with TemporaryDirectory() as temporary:
        overlay = Path(temporary) / "overlay"
        write_overlay(overlay, "storage", "disk-a.csi.example.com", "csi-agent-limits")
        kustomization = yaml.safe_load((overlay / "kustomization.yaml").read_text())
        write_kustomization(overlay, **(kustomization | more))
        return built(overlay, version)


def workloads(documents: tuple[Document, ...]) -> list[Document]:
    return [document for document in documents if document["kind"] == "Deployment"]


def pod_labels(deployment: Document) -> dict[str, str]:
    return deployment["spec"]["template"]["metadata"]["labels"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("overlay", ["base", *(f"overlays/{name}" for name in OVERLAYS)])
def test_every_kustomize_makes_the_same_of_an_overlay(overlay: str) -> None:
    current, oldest = (by_name(built(MANIFESTS / overlay, version)) for version in KUSTOMIZE_VERSIONS)
    assert current == oldest
    assert current


def test_every_kustomize_makes_the_same_of_all_components() -> None:
    current, oldest = (by_name(everything(version)) for version in KUSTOMIZE_VERSIONS)
    assert current == oldest


@pytest.mark.parametrize("version", KUSTOMIZE_VERSIONS)
def test_the_agent_gets_the_drivers_names_by_every_kustomize(version: str) -> None:
    name = "pvc-prebinder-csi-agent-disk-a.csi.example.com"
    documents = by_name(agent(version))
    assert {kind for kind, _, driver_name in documents if driver_name == name} == {
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    assert "DRIVER" not in yaml.safe_dump([document for document in agent(version) if document["kind"] != "Deployment"])
    assert documents["RoleBinding", "storage", name]["subjects"][0]["namespace"] == "storage"
    assert documents == by_name(agent("current"))


@pytest.mark.parametrize("version", KUSTOMIZE_VERSIONS)
def test_the_image_of_every_container_of_ours_is_named_by_an_overlay(version: str) -> None:
    images = [{"name": "pvc-prebinder", "newName": "registry.example.com/ours", "newTag": "9.9"}]
    beside = _agent(version, images=images)
    documents = [*overlay_of_base(COMPONENTS, version, images=images), *beside]
    containers = [
        container
        for deployment in workloads(tuple(documents))
        for container in deployment["spec"]["template"]["spec"]["containers"]
        if container["name"] not in {"driver", "kube-scheduler"}
    ]
    ours = {"controller", "extender", "scheduler", "view", "csi-agent"}
    assert {container["name"] for container in containers} == ours
    assert {container["image"] for container in containers} == {"registry.example.com/ours:9.9"}


def test_an_overlay_of_an_overlay_names_the_image_as_well(tmp_path: Path) -> None:
    for name in OVERLAYS:
        directory = tmp_path / name
        directory.mkdir()
        images = [{"name": "pvc-prebinder", "newName": "registry.example.com/ours", "digest": f"sha256:{'0' * 64}"}]
        write_kustomization(directory, resources=[relative(MANIFESTS / "overlays" / name, directory)], images=images)
        for deployment in workloads(tuple(built(directory))):
            (container,) = deployment["spec"]["template"]["spec"]["containers"]
            assert container["image"] == f"registry.example.com/ours@sha256:{'0' * 64}"


def test_everything_of_ours_carries_the_standard_labels() -> None:
    version = tomllib.loads((MANIFESTS.parent / "pyproject.toml").read_text())["project"]["version"]
    for document in (*everything(), *agent()):
        if document["metadata"]["name"] == "csi-controller":
            assert "labels" not in document["metadata"]
            continue
        labels = document["metadata"]["labels"]
        assert {key: value for key, value in labels.items() if key.startswith("app.kubernetes.io/")} == {
            COMPONENT: labels[COMPONENT],
            NAME: "pvc-prebinder",
            "app.kubernetes.io/part-of": "pvc-prebinder",
            "app.kubernetes.io/version": version,
            "app.kubernetes.io/managed-by": "kustomize",
        }, document["metadata"]["name"]


def selections() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield what selects pods by labels: its kind and name, and the labels."""
    for document in everything():
        spec, called = document.get("spec", {}), f"{document['kind']} {document['metadata']['name']}"
        if document["kind"] == "Service":
            yield called, spec["selector"]
        elif document["kind"] == "NetworkPolicy":
            yield called, spec["podSelector"]["matchLabels"]
        elif document["kind"] in {"Deployment", "PodDisruptionBudget"}:
            yield called, spec["selector"]["matchLabels"]
        if document["kind"] == "Deployment":
            for constraint in spec["template"]["spec"].get("topologySpreadConstraints", ()):
                yield f"{called}: spread", constraint["labelSelector"]["matchLabels"]


def test_a_selector_selects_the_pods_of_one_deployment() -> None:
    for what, labels in selections():
        selected = [workload for workload in workloads(everything()) if labels.items() <= pod_labels(workload).items()]
        assert len(selected) == 1, what
        assert what.partition(" ")[2].startswith(selected[0]["metadata"]["name"])


@pytest.mark.parametrize("component", ["controller", "extender", "scheduler"])
def test_a_component_can_be_drained_one_replica_at_a_time_and_is_spread(component: str) -> None:
    mine = {
        document["kind"]: document
        for document in everything()
        if document["metadata"]["labels"].get(COMPONENT) == component
    }
    assert mine["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    spec = mine["Deployment"]["spec"]
    assert spec["replicas"] > 1
    assert [constraint["topologyKey"] for constraint in spec["template"]["spec"]["topologySpreadConstraints"]] == [
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
    ]
    (container,) = spec["template"]["spec"]["containers"]
    served = {port["name"] for port in container["ports"]}
    (rule,) = mine["NetworkPolicy"]["spec"]["ingress"]
    assert {port["port"] for port in rule["ports"]} == served - {"health"}


def test_a_priority_class_is_referenced_only_by_its_component() -> None:
    waited_for = ("controller", "extender", "scheduler", "kube-scheduler")
    plain = overlay_of_base(COMPONENTS[:-1])
    for documents, priority in ((tuple(plain), None), (everything(), "system-cluster-critical")):
        pods = {
            pod_labels(deployment)[COMPONENT]: deployment["spec"]["template"]["spec"].get("priorityClassName")
            for deployment in workloads(documents)
        }
        # No pod waits for the page.
        assert pods == {**dict.fromkeys(waited_for, priority), "view": None}


def test_users_may_read_what_the_commands_read_and_change_nothing() -> None:
    role = by_name(everything())["ClusterRole", "", "pvc-prebinder-view"]
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    granted = {(plural, verb) for rule in role["rules"] for plural in rule["resources"] for verb in rule["verbs"]}
    assert {("persistentvolumes", "list"), ("csinodes", "list"), ("leases", "list")} <= granted


def configuration(documents: list[Document]) -> Any:
    (text,) = (
        document["data"]["config.yaml"]
        for document in documents
        if document["kind"] == "ConfigMap" and document["metadata"]["name"].startswith("pvc-prebinder-config")
    )
    return config_file.CONTROLLER.parse(text)


def test_a_dry_run_needs_rights_to_read_and_none_to_write() -> None:
    documents = built(MANIFESTS / "overlays" / "try")
    roles = [document for document in documents if document["kind"] in {"ClusterRole", "Role"}]
    assert {verb for role in roles for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    (deployment,) = workloads(tuple(documents))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "--dry-run"
    assert deployment["spec"]["replicas"] == 1
    assert configuration(documents).binding.mode is Mode.COMPLETE
    base = by_name(built(MANIFESTS / "base"))["ClusterRole", "", "pvc-prebinder"]
    (mine,) = (role for role in roles if role["metadata"]["name"] == "pvc-prebinder")
    readable = {resource for rule in base["rules"] if "watch" in rule["verbs"] for resource in rule["resources"]}
    assert {resource for rule in mine["rules"] for resource in rule["resources"]} == readable


def test_production_has_the_rights_of_its_mode() -> None:
    documents = built(MANIFESTS / "overlays" / "production")
    assert configuration(documents).binding.mode is Mode.COMPLETE
    names = {document["metadata"]["name"] for document in documents if document["kind"] == "ClusterRole"}
    assert {"pvc-prebinder-complete", "pvc-prebinder-scheduling-gate"} <= names


def test_the_gate_that_the_policy_adds_is_the_one_that_is_removed() -> None:
    policy = by_name(everything())["MutatingAdmissionPolicy", "", "pvc-prebinder-gate"]["spec"]
    assert policy["failurePolicy"] == "Ignore"
    assert f"'{Annotations().gate}'" in policy["mutations"][0]["applyConfiguration"]["expression"]
    assert any(Annotations().gate in condition["expression"] for condition in policy["matchConditions"])
    constraints = policy["matchConstraints"]
    assert constraints["namespaceSelector"]["matchLabels"] == {f"{DEFAULT_PREFIX}gate": "enabled"}
    assert constraints["objectSelector"]["matchExpressions"][0]["key"] == f"{DEFAULT_PREFIX}gate"


@pytest.mark.parametrize("version", KUSTOMIZE_VERSIONS)
def test_the_job_that_removes_everything_takes_image_and_prefix_as_documented(version: str, tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", (MANIFESTS.parent / "docs" / "operate.md").read_text(), re.DOTALL)
    kustomization = yaml.safe_load(text)
    kustomization["resources"] = [relative(MANIFESTS / "uninstall", tmp_path)]
    write_kustomization(tmp_path, **kustomization)
    (job,) = (document for document in built(tmp_path, version) if document["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    context = uninstall.make_context("uninstall", container["args"][1:])
    assert context.params["annotation_prefix"] == "storage.example.com/"
    assert container["image"] == "registry.example.com/pvc-prebinder:0.1.0"


@pytest.mark.parametrize("version", KUSTOMIZE_VERSIONS)
def test_the_extender_gets_a_fixed_address_as_documented(version: str) -> None:
    (text,) = re.findall(
        r"```yaml\n(patches:.*?)```", (MANIFESTS.parent / "docs" / "extender.md").read_text(), re.DOTALL
    )
    documents = by_name(overlay_of_base(["extender"], version, **yaml.safe_load(text)))
    service = documents["Service", "pvc-prebinder-system", "pvc-prebinder-extender"]
    assert service["spec"]["clusterIP"] == "10.96.0.42"


def documented(page: str, word: str) -> Document:
    """Return the only YAML text of a page of docs/ that has this word."""
    texts = re.findall(r"```yaml\n(.*?)```", (MANIFESTS.parent / "docs" / page).read_text(), re.DOTALL)
    (text,) = (text for text in texts if word in text)
    return yaml.safe_load(text)  # type: ignore[no-any-return]


@pytest.mark.parametrize("version", KUSTOMIZE_VERSIONS)
def test_a_registrys_credentials_reach_every_pod_as_documented(version: str) -> None:
    documents = overlay_of_base(COMPONENTS, version, **documented("install.md", "imagePullSecrets"))
    used = {each["spec"]["template"]["spec"]["serviceAccountName"] for each in workloads(tuple(documents))}
    accounts = [document for document in documents if document["kind"] == "ServiceAccount"]
    assert {account["metadata"]["name"] for account in accounts} == used
    assert all(account["imagePullSecrets"] == [{"name": "registry-credentials"}] for account in accounts)


@pytest.mark.parametrize("version", KUSTOMIZE_VERSIONS)
def test_ids_are_left_to_openshift_as_documented(version: str) -> None:
    for deployment in workloads(tuple(overlay_of_base(COMPONENTS, version, **documented("install.md", "runAsUser")))):
        security = deployment["spec"]["template"]["spec"]["securityContext"]
        assert security == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@pytest.mark.parametrize("version", KUSTOMIZE_VERSIONS)
def test_production_without_what_an_older_cluster_lacks_is_documented(version: str, tmp_path: Path) -> None:
    kustomization = documented("install.md", "components/complete")
    chosen = {Path(path).name for path in kustomization["components"]}
    shipped = yaml.safe_load((MANIFESTS / "overlays" / "production" / "kustomization.yaml").read_text())["components"]
    assert {Path(path).name for path in shipped} - chosen == {"gate-policy", "alerts"}
    kustomization["resources"] = [relative(MANIFESTS / "base", tmp_path)]
    kustomization["components"] = [relative(MANIFESTS / "components" / name, tmp_path) for name in sorted(chosen)]
    write_kustomization(tmp_path, **kustomization)
    documents = built(tmp_path, version)
    assert configuration(documents) == configuration(built(MANIFESTS / "overlays" / "production"))
    kept = {document["kind"] for document in documents}
    assert not kept & {"MutatingAdmissionPolicy", "PodMonitor", "PrometheusRule"}


@pytest.mark.parametrize("version", KUSTOMIZE_VERSIONS)
def test_a_prometheus_that_selects_by_labels_is_given_them_as_documented(version: str) -> None:
    documents = by_name(overlay_of_base(["alerts"], version, **documented("alerts.md", "release\n        value")))
    for kind in ("PodMonitor", "PrometheusRule"):
        assert documents[kind, SYSTEM, "pvc-prebinder"]["metadata"]["labels"]["release"] == "monitoring"


@pytest.mark.parametrize("version", KUSTOMIZE_VERSIONS)
def test_runbooks_begin_with_an_address_as_documented(version: str, tmp_path: Path) -> None:
    kustomization = documented("alerts.md", "replacements")
    address = documented("alerts.md", "kind: ConfigMap\n")
    (tmp_path / "docs.yaml").write_text(yaml.safe_dump(address))
    alerts = relative(MANIFESTS / "components" / "alerts", tmp_path)
    write_kustomization(tmp_path, **kustomization, components=[alerts])
    rendered = built(tmp_path, version)
    assert {document["kind"] for document in rendered} == {"PodMonitor", "PrometheusRule"}
    groups = by_name(rendered)["PrometheusRule", SYSTEM, "pvc-prebinder"]["spec"]["groups"]
    notes = [rule["annotations"] for group in groups for rule in group["rules"] if "alert" in rule]
    for url in (note[key] for note in notes for key in ("runbook_url", "cause_url") if key in note):
        assert url.startswith(f"{address['data']['address']}/"), url


def test_the_documented_monitor_scrapes_the_agents() -> None:
    monitor = documented("csi-agent.md", "PodMonitor")["spec"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    (deployment,) = workloads(agent())
    (container,) = (
        each for each in deployment["spec"]["template"]["spec"]["containers"] if each["name"] == "csi-agent"
    )
    assert endpoint["port"] in {port["name"] for port in container["ports"]}
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "pvc-prebinder-csi-agent"}]
