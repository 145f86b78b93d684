from pathlib import Path

import pytest

from devcluster.control_plane import components
from devcluster.control_plane.components import Layout, Options, Ports
from devcluster.credentials.certificates import KeyPair

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
COMMANDS = dict(
    zip(
        NAMES,
        (components.etcd, components.apiserver, components.controller_manager, components.scheduler, components.kwok),
        strict=True,
    )
)
LAYOUT = Layout(
    binaries={name: Path("/bin") / name for name in NAMES},
    directory=Path("/state"),
    ports=Ports(etcd=1, etcd_peer=2, apiserver=3, controller_manager=4, scheduler=5, kwok=6),
    authority=Path("/state/ca.crt"),
    serving=KeyPair(Path("/state/serving.crt"), Path("/state/serving.key")),
    service_account_key=Path("/state/sa.key"),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_callers_flags_come_last_and_only_where_they_belong(name: str) -> None:
    options = Options(flags={name: ["--extra=1"]})
    for other in NAMES:
        command = COMMANDS[other](LAYOUT, options)
        assert command[0] == f"/bin/{other}"
        assert (command[-1] == "--extra=1") is (other == name)


@pytest.mark.parametrize("name", ["kube-apiserver", "kube-controller-manager", "kube-scheduler"])
def test_feature_gates_reach_every_kubernetes_component(name: str) -> None:
    options = Options(feature_gates={"A": True, "B": False})
    assert "--feature-gates=A=true,B=false" in COMMANDS[name](LAYOUT, options)


@pytest.mark.parametrize("name", NAMES)
def test_everything_listens_on_loopback_only(name: str) -> None:
    listening = [flag for flag in COMMANDS[name](LAYOUT, Options()) if "listen" in flag or "address=" in flag]
    assert listening or name == "kube-scheduler"
    assert all("127.0.0.1" in flag for flag in listening)


def test_without_kwok_nodes_are_not_waited_for() -> None:
    options = Options(kwok=False)
    assert "--disable-admission-plugins=TaintNodesByCondition" in components.apiserver(LAYOUT, options)
    assert "--controllers=*,-node-lifecycle-controller" in components.controller_manager(LAYOUT, options)


@pytest.mark.parametrize(
    "options", [Options(), Options(kwok=False), Options(kwok=False, real_node=True)], ids=["kwok", "none", "kubelet"]
)
def test_only_simulated_nodes_may_renew_their_leases_late(options: Options) -> None:
    flags = components.controller_manager(LAYOUT, options)
    assert ("--node-monitor-grace-period=10m" in flags) is options.kwok


def test_the_callers_scheduler_settings_are_laid_over_ours() -> None:
    options = Options(scheduler_configuration={"parallelism": 1, "clientConnection": {"qps": 500}})
    configuration = components.scheduler_configuration(LAYOUT, options)
    assert configuration["parallelism"] == 1
    assert configuration["leaderElection"] == {"leaderElect": False}
    assert configuration["clientConnection"] == {"kubeconfig": "/state/scheduler.kubeconfig", "qps": 500}
