"""Pods that the scheduler does not queue, and the reason that is reported."""

from binder.matching.rejection import Reason
from kube.objects.constraints import Constraints
from kube.objects.model import Toleration
from scheduler.queue.validation import reject_pod
from tests import builders


def test_a_pod_that_cannot_be_meant_as_it_is() -> None:
    rejected = reject_pod(builders.pod(tolerations=[Toleration("a", "Like")]))
    assert rejected is not None
    assert rejected.reason is Reason.POD_INVALID


def test_a_pod_with_unsupported_fields() -> None:
    rejected = reject_pod(builders.pod(constraints=Constraints(unsupported=("spec.resourceClaims",))))
    assert rejected is not None
    assert (rejected.reason, rejected.offered) == (Reason.POD_UNSUPPORTED, "spec.resourceClaims, not supported")


def test_a_good_pod() -> None:
    assert reject_pod(builders.pod()) is None
