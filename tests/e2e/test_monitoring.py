"""A Prometheus in the cluster that scrapes pods as the PodMonitor says, and notices when they are gone.

Debian's Prometheus cannot discover pods: the test does, and passes on what Prometheus would learn of each.
"""

import json
import re
import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest_asyncio
import yaml

from devcluster.build.image import NAME
from devcluster.cluster import DevCluster
from tests.e2e.installation import COMPONENTS, SECONDS, rolled_out, write_overlay
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.monitoring.prometheus import PROGRAM, needs_prometheus
from tests.scenarios.monitoring.stage import RULES, sooner
from tests.scenarios.processes.controller import MANIFESTS, SYSTEM

pytestmark = needs_prometheus

NAMESPACE: Final = "monitoring"
MONITOR: Final[Document] = yaml.safe_load((MANIFESTS / "components" / "alerts" / "pod_monitor.yaml").read_text())


@pytest_asyncio.fixture
async def prometheus(real: DevCluster, installed: None) -> AsyncIterator[None]:
    """In a pod: the machine's program, and a configuration made of the PodMonitor and the rules that ship."""
    await real.run_kubectl("apply", "-k", str(write_overlay(real.directory, (*COMPONENTS, "scheduler"))))
    await rolled_out(real, "deployment/pvc-prebinder-scheduler")
    files = files_of(real)
    files.mkdir(mode=0o755)
    shutil.copy(str(PROGRAM), files / "prometheus")
    (files / "rules.yaml").write_text(yaml.safe_dump({"groups": sooner(RULES)}))
    (files / "prometheus.yaml").write_text(yaml.safe_dump(configuration(MONITOR)))
    (files / "targets.json").write_text("[]")
    await real.create_namespace(NAMESPACE)
    await real.run_kubectl("apply", "-f", "-", given=yaml.safe_dump(pod(files)))
    await real.run_kubectl(
        "-n", NAMESPACE, "wait", "--for=condition=Ready", "pod/prometheus", f"--timeout={SECONDS:.0f}s"
    )
    yield
    await real.run_kubectl("delete", "namespace", NAMESPACE)


def configuration(monitor: Document) -> Document:
    """Do to a PodMonitor what the Prometheus Operator does."""
    spec, (endpoint,) = monitor["spec"], monitor["spec"]["podMetricsEndpoints"]
    keep = {f"pod_label_{escaped(name)}": value for name, value in spec["selector"]["matchLabels"].items()}
    keep["pod_container_port_name"] = endpoint["port"]
    relabelings: list[Document] = [
        {"action": "keep", "source_labels": [f"__meta_kubernetes_{label}"], "regex": value}
        for label, value in keep.items()
    ]
    relabelings += [
        {"source_labels": each["sourceLabels"], "target_label": each["targetLabel"], "replacement": each["replacement"]}
        for each in endpoint["relabelings"]
    ]
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [
            {
                "job_name": "pods",
                "file_sd_configs": [{"files": ["targets.json"], "refresh_interval": "1s"}],
                "relabel_configs": relabelings,
            }
        ],
    }


def escaped(label: str) -> str:
    return re.sub(r"\W", "_", label)


async def discover(cluster: DevCluster) -> None:
    """Pass on every port of every pod, with the labels that Prometheus gives to discovered pods."""
    pods = json.loads(await cluster.run_kubectl("-n", SYSTEM, "get", "pods", "--output", "json"))["items"]
    targets = [
        {
            "targets": [f"{pod['status']['podIP']}:{port['containerPort']}"],
            "labels": {
                "__meta_kubernetes_pod_container_port_name": port["name"],
                **{f"__meta_kubernetes_pod_label_{escaped(key)}": value for key, value in labels_of(pod).items()},
            },
        }
        for pod in pods
        if pod["status"].get("podIP")
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
    ]
    written = files_of(cluster) / "targets.new"
    written.write_text(json.dumps(targets))
    written.rename(files_of(cluster) / "targets.json")


def labels_of(pod: Document) -> dict[str, str]:
    labels: dict[str, str] = pod["metadata"]["labels"]
    return labels


def files_of(cluster: DevCluster) -> Path:
    return cluster.directory / "node" / "prometheus"


def pod(files: Path) -> Document:
    flags = ["--config.file=/files/prometheus.yaml", "--storage.tsdb.path=/data"]
    container = {
        "name": "prometheus",
        "image": NAME,
        "command": ["/files/prometheus", *flags],
        "readinessProbe": {"httpGet": {"path": "/-/ready", "port": 9090}, "periodSeconds": 1},
        "volumeMounts": [{"name": "files", "mountPath": "/files"}, {"name": "data", "mountPath": "/data"}],
    }
    volumes = [{"name": "files", "hostPath": {"path": str(files)}}, {"name": "data", "emptyDir": {}}]
    spec: Document = {"automountServiceAccountToken": False, "containers": [container], "volumes": volumes}
    spec |= {"securityContext": {"runAsUser": 65532, "fsGroup": 65532}, "terminationGracePeriodSeconds": 1}
    about = {"namespace": NAMESPACE, "name": "prometheus"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


async def answer_of(cluster: DevCluster, path: str) -> Any:
    """Return what Prometheus answers."""
    proxy = f"/api/v1/namespaces/{NAMESPACE}/pods/prometheus:9090/proxy/api/v1"
    return json.loads(await cluster.run_kubectl("get", "--raw", f"{proxy}/{path}"))["data"]


async def series_of(cluster: DevCluster, query: str) -> list[Document]:
    result: list[Document] = (await answer_of(cluster, f"query?query={quote(query)}"))["result"]
    return result


async def scraped(cluster: DevCluster) -> dict[str, int]:
    """Return how many pods of each job are scraped, of those that there are now."""
    await discover(cluster)
    counts = await series_of(cluster, "count by (job) (up == 1)")
    return {series["metric"]["job"]: int(series["value"][1]) for series in counts}


async def fired(cluster: DevCluster) -> set[str]:
    """Return the alerts that have fired, even if they have ended since."""
    await discover(cluster)
    alerts = await series_of(cluster, 'last_over_time(ALERTS{alertstate="firing"}[1h])')
    return {series["metric"]["alertname"] for series in alerts}


async def firing(cluster: DevCluster) -> set[str]:
    await discover(cluster)
    active = (await answer_of(cluster, "alerts"))["alerts"]
    return {alert["labels"]["alertname"] for alert in active if alert["state"] == "firing"}


async def test_components_are_scraped_and_missed(real: DevCluster, prometheus: None) -> None:
    jobs = {"pvc-prebinder-controller": 2, "pvc-prebinder-scheduler": 2}
    deployments = ("pvc-prebinder", "pvc-prebinder-scheduler")
    controller, scheduler = "PVCPrebinderDown", "PVCPrebinderSchedulerDown"
    await eventually(partial(scraped, real), lambda seen: seen == jobs, "every pod is scraped", SECONDS)
    await eventually(partial(firing, real), lambda seen: controller not in seen, "nothing is missed", SECONDS)
    assert scheduler not in await fired(real)
    for deployment in deployments:
        await scaled(real, deployment, 0)
    await eventually(partial(firing, real), lambda seen: controller in seen, f"{controller} fires", SECONDS)
    # It looks back a day, here ten seconds: it may have ended by itself.
    await eventually(partial(fired, real), lambda seen: scheduler in seen, f"{scheduler} fires", SECONDS)
    for deployment in deployments:
        await scaled(real, deployment, 2)
    await eventually(partial(firing, real), lambda seen: not {controller, scheduler} & seen, "they resolve", SECONDS)
    await eventually(partial(scraped, real), lambda seen: seen == jobs, "every pod is scraped again", SECONDS)


async def scaled(cluster: DevCluster, deployment: str, replicas: int) -> None:
    await cluster.run_kubectl("-n", SYSTEM, "scale", f"deployment/{deployment}", f"--replicas={replicas}")
