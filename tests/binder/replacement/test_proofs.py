"""What proves that a pod writes nothing any more, and that a volume is lost."""

from dataclasses import replace
from datetime import timedelta

import pytest

from binder.health.published_sweeps import PublishedSweep
from binder.replacement.proofs import OUT_OF_SERVICE, Ground, Missing, Proof, fenced, lost, other_users
from csi.health.complete_sweep import SweepReport
from kube.objects.model import Pod, Record, Taint, Volume
from tests.binder.replacement.situations import NODES, OURS, bound_claim, old_volume, replica, situation
from tests.builders import EPOCH, node, node_selector, pod, volume

DATA_LOSS = Proof(Ground.DATA_LOSS, "")
NODE_LOSS = Proof(Ground.NODE_GONE, "")
NOT_FOUND = Proof(Ground.NOT_FOUND, "")
UNKNOWN = Missing("")
N2 = node("n2")
OUT = node("n2", taints=[Taint(OUT_OF_SERVICE, "NoExecute")])
REPORT = SweepReport(
    "disk.csi.example",
    EPOCH - timedelta(seconds=2),
    EPOCH - timedelta(seconds=1),
    timedelta(minutes=1),
    version=9,
    volumes=10,
    unhealthy=1,
    lost=1,
    lost_twice=frozenset({"handle-pv-old"}),
)
REPORTED = {OURS.health: "DataLoss", OURS.health_reason: "Gone", OURS.health_since: "2025-12-31T23:00:00Z"}


@pytest.mark.parametrize(
    ("subject", "nodes", "loss", "is_ready", "ready_nodes", "ground"),
    [
        pytest.param(replica("n2"), NODES, UNKNOWN, False, "", Ground.NODE_GONE, id="node object gone"),
        pytest.param(replica("n2"), NODES, UNKNOWN, True, "", Ground.NODE_GONE, id="gone, and its last word was Ready"),
        pytest.param(replica("n2"), [OUT], UNKNOWN, False, "", Ground.OUT_OF_SERVICE, id="out of service"),
        pytest.param(replica("n2", phase="Failed"), [N2], UNKNOWN, False, "", Ground.NOT_RUNNING, id="ended"),
        pytest.param(replica(), [N2], UNKNOWN, False, "", Ground.NOT_RUNNING, id="no node"),
        pytest.param(None, [N2], UNKNOWN, False, "", Ground.NOT_RUNNING, id="no pod"),
        pytest.param(replica("n2"), [N2], NODE_LOSS, False, "", None, id="not ready alone"),
        pytest.param(replica("n2"), [N2], DATA_LOSS, False, "", None, id="not ready, and DataLoss"),
        pytest.param(replica("n2"), [N2], DATA_LOSS, True, "n2", Ground.KUBELET, id="Ready, and DataLoss"),
        pytest.param(replica("n2"), [N2], NOT_FOUND, True, "n2", None, id="Ready, and not found"),
        pytest.param(replica("n2"), [N2], NOT_FOUND, False, "n2", Ground.KUBELET, id="failing, and not found"),
        pytest.param(replica("n2"), [N2], UNKNOWN, False, "n2", None, id="failing on a node that works"),
    ],
)
def test_what_fences_a_pod(
    subject: Pod | None,
    nodes: list[Record],
    loss: Proof | Missing,
    is_ready: bool,
    ready_nodes: str,
    ground: Ground | None,
) -> None:
    ready = ["default/db-2"] if is_ready else []
    records = [*nodes, bound_claim(), old_volume(), *([] if subject is None else [subject])]
    proof = fenced(situation(*records, ready=ready, ready_nodes=[ready_nodes]), [loss])
    assert (proof.ground if isinstance(proof, Proof) else None) is ground


def test_the_proof_of_a_node_that_is_not_ready_is_a_taint_that_an_administrator_sets() -> None:
    proof = fenced(situation(N2, bound_claim(), replica("n2"), ready_nodes=[]), [NODE_LOSS])
    assert isinstance(proof, Missing)
    assert OUT_OF_SERVICE in proof.next


@pytest.mark.parametrize(
    ("subject", "nodes", "ground"),
    [
        pytest.param(old_volume(), NODES, Ground.NODE_GONE, id="local, its node gone"),
        pytest.param(old_volume(), [*NODES, N2], None, id="local, its node there"),
        pytest.param(old_volume(), [*NODES, node("n2", labels={"kubernetes.io/hostname": "x"})], None, id="relabelled"),
        pytest.param(old_volume(), [*NODES, node("x", labels={"kubernetes.io/hostname": "n2"})], None, id="renamed"),
        pytest.param(
            old_volume(node_affinity=node_selector({"kubernetes.io/hostname": ["n2", "n4"]})),
            NODES,
            None,
            id="two nodes",
        ),
        pytest.param(old_volume(node=None, zone="gone"), NODES, None, id="a zone without nodes"),
        pytest.param(old_volume(node_affinity=node_selector({"example/node": "n2"})), NODES, None, id="a driver's key"),
    ],
)
def test_a_volume_is_lost_with_the_only_node_that_reaches_it(
    subject: Volume, nodes: list[Record], ground: Ground | None
) -> None:
    proof = lost(situation(*nodes, bound_claim(), subject), bound_claim())
    assert (proof.ground if isinstance(proof, Proof) else None) is ground


def test_a_volume_whose_object_is_gone_is_lost() -> None:
    proof = lost(situation(*NODES, bound_claim()), bound_claim())
    assert isinstance(proof, Proof)
    assert proof.ground is Ground.VOLUME_GONE


@pytest.mark.parametrize(
    ("reports", "annotations", "ground"),
    [
        pytest.param([REPORT], REPORTED, Ground.DATA_LOSS, id="twice"),
        pytest.param(
            [REPORT],
            REPORTED | {OURS.health: "Inaccessible", OURS.health_reason: "VolumeNotFound"},
            Ground.NOT_FOUND,
            id="not found",
        ),
        pytest.param([REPORT], REPORTED | {OURS.health: "Inaccessible"}, None, id="inaccessible"),
        pytest.param([REPORT], REPORTED | {OURS.health: "Degraded"}, None, id="degraded"),
        pytest.param([REPORT], {}, None, id="not on the volume"),
        pytest.param([], REPORTED, None, id="no sweep"),
        pytest.param([replace(REPORT, lost_twice=frozenset())], REPORTED, None, id="once"),
        pytest.param([replace(REPORT, lost_twice=None)], REPORTED, None, id="a version that does not say"),
        pytest.param([REPORT, replace(REPORT, lost_twice=frozenset())], REPORTED, None, id="another process disagrees"),
        pytest.param([replace(REPORT, driver="other")], REPORTED, None, id="another driver"),
        pytest.param([replace(REPORT, ended=EPOCH - timedelta(hours=1))], REPORTED, None, id="outdated"),
        pytest.param([replace(REPORT, lost=3)], REPORTED, Ground.DATA_LOSS, id="at the cap"),
        pytest.param([replace(REPORT, lost=4)], REPORTED, None, id="above the cap"),
        pytest.param([replace(REPORT, lost=5)], REPORTED, None, id="half of its volumes"),
        pytest.param([replace(REPORT, volumes=1)], REPORTED, Ground.DATA_LOSS, id="its only volume"),
    ],
)
def test_a_driver_proves_a_loss_by_two_complete_sweeps(
    reports: list[SweepReport], annotations: dict[str, str], ground: Ground | None
) -> None:
    sweeps = [PublishedSweep(report, "ns/lease") for report in reports]
    subject = old_volume(annotations=annotations)
    proof = lost(situation(*NODES, N2, bound_claim(), subject, sweeps=sweeps), bound_claim())
    assert (proof.ground if isinstance(proof, Proof) else None) is ground


def test_volumes_that_report_a_loss_count_towards_the_cap_as_the_sweep_does() -> None:
    others = [volume(f"pv-{number}", annotations=REPORTED) for number in range(3)]
    sweeps = [PublishedSweep(REPORT, "ns/lease")]
    subject = old_volume(annotations=REPORTED)
    assert isinstance(lost(situation(N2, bound_claim(), subject, *others, sweeps=sweeps), bound_claim()), Missing)
    assert isinstance(lost(situation(N2, bound_claim(), subject, *others[:2], sweeps=sweeps), bound_claim()), Proof)


@pytest.mark.parametrize(
    ("node_name", "others"), [pytest.param("n1", True, id="on a node"), pytest.param("n9", False, id="on one gone")]
)
def test_another_pod_that_uses_the_claim_has_to_be_fenced_too(node_name: str, others: bool) -> None:
    reader = pod("reader", claims=["data-db-2"], node=node_name)
    user = other_users(situation(*NODES, bound_claim(), replica(), reader), ["data-db-2"])
    assert (user is not None) is others
