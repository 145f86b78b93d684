"""Dumps of states that are rare, and of several causes at once."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.prebinder.why.documents import (
    DRIVER,
    SCHEDULED,
    Document,
    at,
    claim,
    csi_node,
    default_class,
    driver,
    lease,
    node,
    pod,
    volume,
)
from tests.prebinder.why.dumps.dump import Dump, check

NEW: Document = {"metadata": {"creationTimestamp": at(timedelta(seconds=20))}}
WITH_DEFAULT = [default_class("std", provisioner=DRIVER), driver(), csi_node("a1", DRIVER), node("a1"), SCHEDULED]
STOPPED = lease("kube-controller-manager", timedelta(hours=1))

DUMPS = {
    "the default class came later, and the controller manager has stopped": Dump(
        "NoStorageClass",
        [claim(storage_class=None), pod("db-0", "data"), *WITH_DEFAULT, STOPPED],
        "its Lease was last renewed",
        "no class is marked",
    ),
    "the default class is not given to the claim, and who knows why": Dump(
        "NoStorageClass",
        [claim(storage_class=None), pod("db-0", "data"), *WITH_DEFAULT],
        """patch pvc data --type merge -p '{"spec":{"storageClassName":"std"}}'""",
    ),
    "the claim is new, and gets the default class in a moment": Dump(
        "Progressing",
        [claim(storage_class=None, **NEW), pod("db-0", "data", **NEW), *WITH_DEFAULT],
        lacks="NoStorageClass",
    ),
    "a volume without a class fits a claim without one, whatever the default is": Dump(
        "Inconclusive",
        [claim(storage_class=None), volume(storage_class=""), pod("db-0", "data"), *WITH_DEFAULT],
        lacks="NoStorageClass",
    ),
    "a class that came later is not given to a claim that opted out": Dump(
        "NoStorageClass",
        [claim(storage_class=""), pod("db-0", "data"), *WITH_DEFAULT],
        "a default is not given to it",
    ),
}


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS)
def test_the_answer(dump: Dump, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(dump, tmp_path, capsys)
