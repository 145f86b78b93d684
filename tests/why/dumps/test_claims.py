"""Dumps of claims: what `why` answers where an easy answer would be wrong or do harm."""

from datetime import timedelta
from pathlib import Path

import pytest

from kube.objects.model import PROVISIONED_BY
from tests.why.documents import (
    DRIVER,
    claim,
    csi_node,
    driver,
    event,
    lease,
    node,
    pod,
    storage_class,
    volume,
)
from tests.why.dumps.dump import (
    EXCEEDED,
    LATER,
    LIMIT,
    NODES,
    NOW_MADE,
    OF_SET,
    OLD,
    OTHER_DRIVER,
    OURS,
    WEBHOOK,
    Dump,
    about_an_earlier,
    check,
    rejected,
)

MADE = {**OLD, "metadata": {"annotations": {PROVISIONED_BY: DRIVER}}}
"""As a provisioner has made it: the class had an object."""

DUMPS = {
    "the only Lease is that of a provisioner which had stopped": Dump(
        "ProvisionerMissing",
        [
            claim(),
            NOW_MADE,
            driver(),
            csi_node("a1", DRIVER),
            node("a1", "a"),
            lease("disk-csi-example", timedelta(hours=2)),
        ],
        "does not respond: its Lease was last renewed",
    ),
    "a quota forbids a claim, in a dump of long ago without Leases": Dump(
        "QuotaExceeded",
        [
            rejected(OF_SET.format(f'persistentvolumeclaims "data-db-0" is {EXCEEDED}')),
            node("a1", "a"),
            storage_class(),
        ],
        "describe quota small",
    ),
    "a Released volume of the same name hides no missing driver": Dump(
        "ProvisionerMissing", [claim(), NOW_MADE, volume(**OLD), *NODES, *OTHER_DRIVER]
    ),
    "a Released volume of the same name hides no missing class": Dump(
        "StorageClassNotFound", [claim(storage_class="gone"), NOW_MADE, volume(storage_class="gone", **MADE), *NODES]
    ),
    "a Released volume of the same name is no consumer": Dump(
        "WaitForFirstConsumer", [claim(), LATER, volume(**OLD), *NODES]
    ),
    "without any class only a Released volume would fit": Dump(
        "PVStillClaimed", [claim(storage_class=""), NOW_MADE, volume(storage_class="", **OLD), *NODES], "patch pv pv-1"
    ),
    "a volume for the claim is too small": Dump(
        "StaticOnlyNoMatch", [claim(), storage_class(mode="Immediate"), volume(size="1Gi", **OURS), *NODES], "TooSmall"
    ),
    "a volume for the claim fits, and it is not bound": Dump(
        "PreboundIncomplete", [claim(), storage_class(mode="Immediate"), volume(**OURS), *NODES], "in its claimRef"
    ),
    "a cluster has no CSIDriver at all": Dump(
        "ProvisionerMissing", [claim(), NOW_MADE, *NODES, csi_node("a1"), csi_node("b1")], "csidrivers"
    ),
    "an in-tree class, and its CSI driver is not installed": Dump(
        "ProvisionerMissing",
        [claim(), {**NOW_MADE, "provisioner": "kubernetes.io/aws-ebs"}, *NODES, csi_node("a1")],
        "ebs.csi.aws.com",
    ),
    "a provisioner without CSI wrote nothing": Dump(
        "ProvisionerMissing",
        [
            claim(),
            {**NOW_MADE, "provisioner": "example.com/nfs"},
            *NODES,
            *OTHER_DRIVER,
            event("Pod", "other", "Scheduled", "assigned", type="Normal"),
        ],
        "nothing shows that it runs",
        "CSI driver is installed",
    ),
    "a class of a manifest has no binding mode": Dump(
        "ProvisionerMissing",
        [claim(), {key: value for key, value in NOW_MADE.items() if key != "volumeBindingMode"}, *NODES, *OTHER_DRIVER],
    ),
    "a LimitRange forbids the claim of a StatefulSet": Dump(
        "QuotaExceeded",
        [rejected(OF_SET.format(f'persistentvolumeclaims "data-db-0" is forbidden: {LIMIT}')), *NODES],
        "describe limitrange",
    ),
    "a webhook forbids the claim of a StatefulSet": Dump(
        "ClaimNotFound", [rejected(OF_SET.format(WEBHOOK)), *NODES], "label team is missing"
    ),
    "a Lost claim is listed although it is bound": Dump(
        "ClaimLost", [claim(volume="pv-1", status={"phase": "Lost"}), storage_class(), *NODES]
    ),
    "only the pod, which tells why": Dump(
        "NoNodeFits",
        [
            pod(
                "db-0",
                status={
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "0/2 nodes are available: 2 node(s) had untolerated taint",
                        }
                    ]
                },
            )
        ],
        "untolerated taint",
    ),
    "the Event is about an earlier claim of the same name": Dump(
        "Progressing",
        [
            claim(),
            NOW_MADE,
            driver(),
            csi_node("a1", DRIVER),
            *NODES,
            about_an_earlier(
                "PersistentVolumeClaim", "data", "ProvisioningFailed", "rpc error: code = InvalidArgument"
            ),
            lease("disk-csi-example", timedelta(seconds=3)),
        ],
    ),
    "the requested volume is another claim's": Dump(
        "PVStillClaimed",
        [
            claim(spec={"volumeName": "pv-1"}),
            claim("other", volume="pv-1"),
            volume(claim="other"),
            storage_class(),
            *NODES,
        ],
        "kubectl -n web delete pvc data",
    ),
}


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS)
def test_the_answer(dump: Dump, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(dump, tmp_path, capsys)
