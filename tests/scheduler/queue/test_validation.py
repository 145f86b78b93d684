"""Pods that the scheduler does not queue, and the reason that is reported."""

from binder.matching.rejection import Reason
from kube.objects.constraints import Constraints
from kube.objects.model import Toleration
from scheduler.queue.validation import refuse_pod
from tests import builders


def test_a_pod_that_cannot_be_meant_as_it_is() -> None:
    refused = refuse_pod(builders.pod(tolerations=[Toleration("a", "Like")]))
    assert refused is not None
    assert refused.reason is Reason.POD_INVALID


def test_a_pod_with_unsupported_fields() -> None:
    refused = refuse_pod(builders.pod(constraints=Constraints(unsupported=("spec.resourceClaims",))))
    assert refused is not None
    assert (refused.reason, refused.offered) == (Reason.POD_UNSUPPORTED, "spec.resourceClaims, not supported")


def test_a_good_pod() -> None:
    assert refuse_pod(builders.pod()) is None
