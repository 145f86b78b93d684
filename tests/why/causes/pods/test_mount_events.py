"""What the kubelet reports about the volumes of a pod: the error itself, before what it says about all of them."""

from datetime import timedelta

import pytest

from binder.matching.rejection import Reason
from tests.why.documents import BOUND, Document, assert_problem, event, node, why
from tests.why.dumps.dump import placed

TIMED_OUT = (
    "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process volumes=[]: "
    "timed out waiting for the condition"
)
SUPERBLOCK = 'MountVolume.SetUp failed for volume "pv-1" : rpc error: code = Internal desc = wrong fs type'
SECRET = 'MountVolume.SetUp failed for volume "tls" : secret "tls" not found'
AT = [placed("db-0", "data"), *BOUND, node("a1")]


def failed(note: str, minutes: int) -> Document:
    made = event("Pod", "db-0", "FailedMount", note, reporter="kubelet", ago=timedelta(minutes=minutes))
    made["metadata"]["name"] += f".{minutes}"
    return made


@pytest.mark.parametrize("over", ["timed out waiting for the condition", "context deadline exceeded"])
def test_the_error_is_quoted_and_not_the_summary_after_it(over: str) -> None:
    summary = TIMED_OUT.replace("timed out waiting for the condition", over)
    item = why("pod/db-0", *AT, failed(SUPERBLOCK, 3), failed(summary, 1))
    assert_problem(item, Reason.MOUNT_FAILED)
    assert "wrong fs type" in item.evidence[0].found


def test_a_summary_is_quoted_if_there_is_nothing_else() -> None:
    item = why("pod/db-0", *AT, failed(TIMED_OUT, 1))
    assert "timed out waiting" in item.evidence[0].found


def test_a_summary_with_an_error_of_its_own_is_none() -> None:
    own = TIMED_OUT.replace("timed out waiting for the condition", "error processing PVC web/data: PVC is not bound")
    item = why("pod/db-0", *AT, failed("MountVolume failed", 3), failed(own, 1))
    assert "PVC is not bound" in item.evidence[0].found


def test_the_cause_that_any_of_the_failures_names_is_the_answer() -> None:
    item = why("pod/db-0", *AT, failed(SECRET, 4), failed(SUPERBLOCK, 2), failed(TIMED_OUT, 1))
    assert item.message == 'The pod mounts Secret "tls", which does not exist.'


def test_a_failure_that_is_not_repeated_while_others_are_is_over() -> None:
    item = why("pod/db-0", *AT, failed(SECRET, 30), failed(SUPERBLOCK, 2), failed(TIMED_OUT, 1))
    assert "wrong fs type" in item.evidence[0].found
