"""The table of drivers: each row finds its workloads, where the driver's own name does not."""

import re
import shlex

import pytest

from tests.why.documents import facts_of
from tests.why.driver_pods import container, workload
from why.causes.drivers.known import KnownDriver, known_driver, known_drivers, stem_of
from why.causes.drivers.workloads import driver_pods, look_for

ROWS = {row.name: row for row in known_drivers()}
NOT_BY_THEIR_NAME = (
    "fuseim.pri/ifs",
    "csi.hetzner.cloud",
    "dobs.csi.digitalocean.com",
    "linodebs.csi.linode.com",
    "blockvolume.csi.oraclecloud.com",
    "diskplugin.csi.alibabacloud.com",
    "nasplugin.csi.alibabacloud.com",
    "ossplugin.csi.alibabacloud.com",
    "k8s.io/minikube-hostpath",
    "docker.io/hostpath",
    "csi-powermax.dellemc.com",
    "csi-unity.dellemc.com",
    "csi.chubaofs.com",
    "com.hammerspace.csi",
    "com.mapr.csi-kdf",
    "com.tencent.cloud.csi.cosfs",
    "com.tuxera.csi.moosefs",
    "lvm.hwameistor.io",
    "named-disk.csi.cloud-director.vmware.com",
    "org.veritas.infoscale",
)


def patterns(command: str) -> list[str]:
    """Return what the command looks for in the lines of `kubectl get`."""
    words = shlex.split(command.partition(" | grep ")[2])
    return [word for word in words if not word.startswith("-")]


def test_the_table_has_the_drivers_of_the_documentation_once_each() -> None:
    assert len(ROWS) == len(known_drivers()) >= 60
    assert all(row.source.startswith("https://") and row.workloads for row in known_drivers())


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_each_workload_of_a_driver_is_in_the_list(row: KnownDriver) -> None:
    command = look_for(row.name, "deploy,daemonset")
    for name in row.workloads:
        line = f"{row.namespace or 'storage'} {name}"
        assert any(re.search(pattern, line, re.IGNORECASE) for pattern in patterns(command)), command


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_each_pod_of_a_driver_is_known_by_its_usual_name(row: KnownDriver) -> None:
    controllers = [f"{name}-6d5f9c7b8d-x2x8p" for name in row.controller]
    node_plugins = [f"{name}-x2x8p" for name in row.node]
    for names, sidecar in ((controllers, "csi-provisioner"), (node_plugins, "node-driver-registrar")):
        per_node = names is node_plugins
        started = container(sidecar, "--csi-address=/s")
        where = row.namespace or "storage"
        documents = [workload(name, started, namespace=where, per_node=per_node) for name in names]
        shown = driver_pods(facts_of(*documents), row.name, per_node=per_node)
        assert sorted(pod.name for pod in shown) == sorted(names)


@pytest.mark.parametrize("driver", NOT_BY_THEIR_NAME)
def test_a_driver_whose_name_its_workloads_do_not_have_is_in_the_table(driver: str) -> None:
    row = known_driver(driver)
    assert row is not None
    assert not any(stem_of(driver).lower() in name for name in row.workloads)


def test_rooks_drivers_have_the_name_of_its_namespace_first() -> None:
    assert known_driver("rook-ceph.rbd.csi.ceph.com") == ROWS["rbd.csi.ceph.com"]


@pytest.mark.parametrize("namespace", ["rook-ceph", "openshift-storage"])
def test_the_operator_of_cephs_drivers_names_their_pods_after_a_namespace(namespace: str) -> None:
    """As ceph-csi-operator does, which Rook deploys since 1.18."""
    driver = f"{namespace}.rbd.csi.ceph.com"
    pod = workload(
        f"{driver}-ctrlplugin-69d4dd6445-8jl4z", container("csi-provisioner", "--csi-address=/s"), namespace=namespace
    )
    assert [each.name for each in driver_pods(facts_of(pod), driver, per_node=False)] == [pod["metadata"]["name"]]
    assert look_for(driver, "deploy,daemonset") == "kubectl get deploy,daemonset -A | grep -i rbd"


@pytest.mark.parametrize(
    ("driver", "stem"),
    [
        ("storage.csi.upcloud.com", "upcloud"),
        ("csi-driver.storpool.com", "storpool"),
        ("volume.csi.example.vn", "example"),
    ],
)
def test_what_is_in_many_names_is_nobodys_stem(driver: str, stem: str) -> None:
    assert stem_of(driver) == stem


def test_of_names_that_several_drivers_use_the_namespace_decides() -> None:
    longhorn = workload("csi-provisioner-6d5f9c7b8d-x2x8p", container("csi-provisioner"), namespace="longhorn-system")
    facts = facts_of(longhorn)
    assert driver_pods(facts, "driver.longhorn.io", per_node=False)
    assert not driver_pods(facts, "diskplugin.csi.alibabacloud.com", per_node=False)


def test_names_that_several_drivers_use_are_not_the_ends_of_others() -> None:
    registrar = container("node-driver-registrar", "--csi-address=/csi/csi.sock")
    ebs = workload("ebs-csi-node-x2x8p", registrar, namespace="kube-system", per_node=True)
    assert driver_pods(facts_of(ebs), "ebs.csi.aws.com", per_node=True)
    assert not driver_pods(facts_of(ebs), "com.hammerspace.csi", per_node=True)


def test_a_provisioner_that_is_only_a_pod_is_looked_for_among_pods() -> None:
    command = look_for("k8s.io/minikube-hostpath", "deploy,daemonset")
    assert command == "kubectl get deploy,daemonset,pod -A | grep -e storage-provisioner"


def test_a_name_of_two_letters_is_in_too_many_others() -> None:
    command = look_for("pd.csi.storage.gke.io", "deploy,daemonset")
    assert command == "kubectl get deploy,daemonset -A | grep -e csi-gce-pd-controller -e csi-gce-pd-node -e pdcsi-node"
