"""What the values of the chart decide about the objects: everything that cluster administrators expect to set."""

import json
import re
from pathlib import Path

import pytest
import yaml

from manifests.chart_generator.names import WORKLOADS
from prebinder.commands.doctor import command as doctor
from prebinder.config.config_file import CONTROLLER
from tests.manifests.chart.helm import CHART, EVERYTHING, SYSTEM, Helm, needs_helm, notes, pods_of
from tests.manifests.tools import Document, by_name

KUBERNETES_ROLES = frozenset(
    ["system:kube-scheduler", "system:volume-scheduler", "extension-apiserver-authentication-reader"]
)
"""Those that Kubernetes itself keeps."""


@needs_helm
@pytest.mark.parametrize("where", WORKLOADS.values())
def test_certificates_reach_the_container(helm: Helm, where: str) -> None:
    """Without that no driver on TCP is probed, and no health endpoint served, by what the chart installs."""
    volumes = [{"name": "driver-tls", "secret": {"secretName": "driver-tls"}}]
    mounts = [{"name": "driver-tls", "mountPath": "/driver-tls", "readOnly": True}]
    name = where.removeprefix(".Values").removeprefix(".")
    prefix = f"{name}." if name else ""
    added = {"extraVolumes": volumes, "extraVolumeMounts": mounts, "extraArgs": ["--csi-tls-ca=/driver-tls/ca.crt"]}
    flags = [f"--set-json={prefix}{key}={json.dumps(value)}" for key, value in added.items()]
    for component, pod in pods_of(helm.template(*EVERYTHING, *flags)).items():
        (container,) = pod["containers"]
        has = WORKLOADS[component] == where
        assert (volumes[0] in pod["volumes"]) is has
        assert (mounts[0] in container["volumeMounts"]) is has
        assert (container["args"][-1] == "--csi-tls-ca=/driver-tls/ca.crt") is has


@needs_helm
def test_a_driver_on_tcp_is_probed_as_documented(helm: Helm, tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", (CHART / "README.md").read_text(), re.DOTALL)
    (tmp_path / "values.yaml").write_text(text)
    documents = helm.template("--values", str(tmp_path / "values.yaml"))
    config = by_name(documents)["ConfigMap", SYSTEM, "pvc-prebinder-config"]["data"]["config.yaml"]
    health = CONTROLLER.parse(config).health
    (mount,) = (
        each
        for each in pods_of(documents)["controller"]["containers"][0]["volumeMounts"]
        if each["name"] == "driver-tls"
    )
    for path in (health.tls_ca, health.tls_certificate, health.tls_key):
        assert path is not None
        assert str(path).startswith(f"{mount['mountPath']}/")


@needs_helm
def test_what_all_pods_have_reaches_every_one(helm: Helm) -> None:
    environment = [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com"}]
    flags = [
        "--set=podAnnotations.team=storage,podLabels.cost=shared,image.pullPolicy=Always",
        f"--set-json=extraEnv={json.dumps(environment)}",
    ]
    documents = helm.template(*EVERYTHING, *flags)
    templates = [each["spec"]["template"] for each in documents if each["kind"] == "Deployment"]
    templates += [each for each in documents if each["kind"] == "Pod"]
    assert len(templates) == len(WORKLOADS) + 1
    for template in templates:
        assert template["metadata"]["annotations"]["team"] == "storage"
        assert template["metadata"]["labels"]["cost"] == "shared"
        (container,) = template["spec"]["containers"]
        assert (container["env"], container["imagePullPolicy"]) == (environment, "Always")


@needs_helm
@pytest.mark.parametrize("component", WORKLOADS)
def test_strategy_spread_and_budget_are_those_of_the_component(helm: Helm, component: str) -> None:
    name = WORKLOADS[component].removeprefix(".Values").removeprefix(".")
    where = f"{name}." if name else ""
    spread = [{"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}]
    flags = [f"--set={where}strategy.type=Recreate"]
    if component != "view":
        flags += [f"--set-json={where}topologySpreadConstraints={json.dumps(spread)}"]
        flags += [f"--set={where}podDisruptionBudget.minAvailable=50%"]
    documents = helm.template(*EVERYTHING, *flags)
    for deployment in (each for each in documents if each["kind"] == "Deployment"):
        has = deployment["metadata"]["labels"]["app.kubernetes.io/component"] == component
        pod = deployment["spec"]["template"]["spec"]
        assert (deployment["spec"].get("strategy") == {"type": "Recreate"}) is has
        assert (pod.get("topologySpreadConstraints") == spread) is (has and component != "view")
    for budget in (each for each in documents if each["kind"] == "PodDisruptionBudget"):
        has = budget["metadata"]["labels"]["app.kubernetes.io/component"] == component
        spec = budget["spec"]
        assert (spec.get("minAvailable"), spec.get("maxUnavailable")) == (("50%", None) if has else (None, 1))


@needs_helm
def test_a_budget_can_be_left_out_and_count_from_none(helm: Helm) -> None:
    flags = ("--set=podDisruptionBudget.enabled=false", "--set=extender.podDisruptionBudget.maxUnavailable=0")
    documents = by_name(helm.template(*EVERYTHING, *flags))
    budgets = {name: each["spec"]["maxUnavailable"] for (kind, _, name), each in documents.items() if "Budget" in kind}
    others = {"pvc-prebinder-scheduler": 1, "pvc-prebinder-kube-scheduler": 1}
    assert budgets == {"pvc-prebinder-extender": 0, **others}


@needs_helm
def test_another_name_is_used_wherever_objects_refer_to_each_other(helm: Helm) -> None:
    """What is still called pvc-prebinder: images, labels, Leases, groups of rules and who writes Events."""
    documents = helm.template(*EVERYTHING, "--set=fullnameOverride=storage-binder")
    for document in documents:
        assert document["metadata"]["name"].startswith("storage-binder"), document["metadata"]
    renamed = re.sub(r"\bstorage-binder\b", "pvc-prebinder", yaml.safe_dump_all(documents))
    assert list(yaml.safe_load_all(renamed)) == helm.template(*EVERYTHING)
    existing = {(each["kind"], each["metadata"]["name"]) for each in documents}
    for document in documents:
        if "roleRef" in document:
            role = document["roleRef"]
            assert (role["kind"], role["name"]) in existing or role["name"] in KUBERNETES_ROLES
            for subject in document["subjects"]:
                assert ("ServiceAccount", subject["name"]) in existing
    for account, user in limited_accounts(documents):
        assert ("ServiceAccount", account) in existing, user


def limited_accounts(documents: list[Document]) -> list[tuple[str, str]]:
    """Return the account that each policy limits, by its name and as a user."""
    expressions = [
        condition["expression"]
        for each in documents
        if each["kind"] == "ValidatingAdmissionPolicy"
        for condition in each["spec"]["matchConditions"]
        if condition["name"] == "account"
    ]
    assert expressions
    users = [expression.split("'")[1] for expression in expressions]
    return [(user.rsplit(":", 1)[1], user) for user in users]


@needs_helm
def test_an_existing_account_gets_the_rights_and_the_limits(helm: Helm) -> None:
    flags = ("--set=serviceAccount.create=false,serviceAccount.name=ours", "--set=scheduler.serviceAccount.name=theirs")
    documents = helm.template(*EVERYTHING, *flags, "--set=scheduler.serviceAccount.annotations.role=reader")
    accounts = {each["metadata"]["name"]: each for each in documents if each["kind"] == "ServiceAccount"}
    untouched = {"pvc-prebinder-extender", "pvc-prebinder-kube-scheduler"}
    assert accounts.keys() == {*untouched, "pvc-prebinder-view", "theirs"}
    assert accounts["theirs"]["metadata"]["annotations"] == {"role": "reader"}
    assert {name for name, _ in limited_accounts(documents)} == {"ours", "theirs"}
    subjects = {subject["name"] for each in documents for subject in each.get("subjects", ())}
    assert subjects == {"ours", "theirs", *untouched}
    pods = pods_of(documents)
    assert {pods[name]["serviceAccountName"] for name in ("controller", "scheduler")} == {"ours", "theirs"}


@needs_helm
def test_network_policies_can_be_left_out_or_limit_egress(helm: Helm) -> None:
    def policies(*flags: str) -> list[Document]:
        return [each["spec"] for each in helm.template(*EVERYTHING, *flags) if each["kind"] == "NetworkPolicy"]

    assert policies("--set=networkPolicy.enabled=false") == []
    assert len(policies()) == len(WORKLOADS)
    assert all(spec["policyTypes"] == ["Ingress"] and "egress" not in spec for spec in policies())
    to = [{"ipBlock": {"cidr": "10.0.0.1/32"}}]
    driver = {"ports": [{"port": 9000}]}
    limited = policies(
        "--set=networkPolicy.egress.enabled=true",
        f"--set-json=networkPolicy.egress.to={json.dumps(to)}",
        f"--set-json=networkPolicy.egress.extra={json.dumps([driver])}",
    )
    for spec in limited:
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        dns, api, extra, *others = spec["egress"]
        assert {port["port"] for port in dns["ports"]} == {53}
        assert api == {"ports": [{"port": 443}, {"port": 6443}], "to": to}
        assert extra == driver
        # The second kube-scheduler calls the extender.
        calls = spec["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "kube-scheduler"
        assert [rule["ports"] for rule in others] == ([[{"port": 8443}]] if calls else [])


@needs_helm
def test_runbooks_and_links_begin_with_the_address_of_the_docs(helm: Helm) -> None:
    base = "https://git.example.com/docs"
    documents = by_name(helm.template(*EVERYTHING, f"--set=alerts.runbookBaseURL={base}"))
    groups = documents["PrometheusRule", SYSTEM, "pvc-prebinder"]["spec"]["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    for alert in alerts:
        notes = alert["annotations"]
        assert notes["runbook_url"] == f"{base}/runbooks/{alert['alert']}.md"
        assert notes.get("cause_url") in {None, f"{base}/causes/{{{{ $labels.reason }}}}.md"}
    board = json.loads(documents["ConfigMap", SYSTEM, "pvc-prebinder-dashboard"]["data"]["pvc-prebinder.json"])
    (constant,) = (each for each in board["templating"]["list"] if each["type"] == "constant")
    assert constant["query"] == base


@needs_helm
def test_helm_test_looks_at_the_installation_with_the_controllers_account(helm: Helm) -> None:
    documents = helm.template()
    (pod,) = (each for each in documents if each["kind"] == "Pod")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["spec"]["serviceAccountName"] == pods_of(documents)["controller"]["serviceAccountName"]
    (container,) = pod["spec"]["containers"]
    context = doctor.make_context("doctor", container["args"][1:])
    assert context.params["lease_namespace"] == SYSTEM
    # It is not one of the controller's pods, whose labels doctor and the network policy select.
    assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "doctor"
    # A dry run has no Lease at which to look.
    assert not [each for each in helm.template("--set=dryRun=true") if each["kind"] == "Pod"]


@needs_helm
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--set=extender.enabled=true",), "Missing: the Secret pvc-prebinder-extender-tls"),
        (("--set=extender.enabled=true", "--set=fullnameOverride=a"), "Missing: the Secret a-extender-tls"),
        (
            ("--set=extender.enabled=true", "--set=secondKubeScheduler.enabled=true"),
            "Missing: the Secret pvc-prebinder-extender-client",
        ),
        ((), "Missing: an image. No registry has pvc-prebinder:0.1.0"),
    ],
    ids=["secret", "renamed", "client", "image"],
)
def test_the_notes_name_what_is_missing(helm: Helm, flags: tuple[str, ...], words: str, tmp_path: Path) -> None:
    assert words in notes(helm, tmp_path, *flags)


@needs_helm
def test_the_notes_miss_nothing_that_there_is(helm: Helm, tmp_path: Path) -> None:
    enabled = [f"--set={key}.enabled=true" for key in ("extender", "extenderCertManager", "secondKubeScheduler")]
    assert "Missing" not in notes(helm, tmp_path, *enabled, "--set=image.repository=registry.example.com/ours")
