"""Which nodes the extender rejects, and which it lets pass."""

import pytest

from kube.objects.labels import LabelSelector
from kube.objects.model import BIND_COMPLETED, SELECTED_NODE, Record
from tests.builders import claim, storage_class, volume
from tests.scheduler.extender_requests import (
    LATER,
    extender,
    filtered,
    kept,
    nodes,
    reserved_claim,
    reserved_volume,
    unhealthy_volume,
)

ALL = ["n1", "n2", "n3", "n4"]
IN_A, IN_B = ALL[:2], ALL[2:]


@pytest.mark.parametrize(
    ("records", "passing"),
    [
        pytest.param([claim(), volume("pv-a", zone="a"), volume("pv-b", zone="b")], ALL, id="nothing against any"),
        pytest.param([claim(), unhealthy_volume("pv-a", zone="a"), volume("pv-b", zone="b")], IN_B, id="one of two"),
        pytest.param([claim(), unhealthy_volume("pv-a", "Degraded", zone="a")], IN_B, id="degraded is unhealthy"),
        pytest.param([claim(), unhealthy_volume("pv-a", "Healthy", zone="a")], ALL, id="well again"),
        pytest.param([claim(), unhealthy_volume("pv-a", "Unknown", zone="a")], ALL, id="unknown is not unhealthy"),
        pytest.param([claim(), unhealthy_volume("pv-a", "Gone?", zone="a")], ALL, id="a word that is no state"),
        pytest.param([claim(), reserved_volume("pv-a", "default/other", zone="a")], IN_B, id="held for another claim"),
        pytest.param([claim(), reserved_volume("pv-a", "default/data", zone="a")], ALL, id="held for this claim"),
        pytest.param(
            [claim(uid="new"), reserved_volume("pv-a", "default/data", zone="a")],
            IN_B,
            id="held for an earlier claim of the same name",
        ),
        pytest.param(
            [claim(), reserved_volume("pv-a", "default/other", until="2026-01-01T11:59:00Z", zone="a")],
            ALL,
            id="held until a minute ago",
        ),
        pytest.param(
            [claim(), reserved_volume("pv-a", "default/other", until="soon", zone="a")], ALL, id="half a reservation"
        ),
        pytest.param(
            [claim(), unhealthy_volume("pv-a1", zone="a"), volume("pv-a2", zone="a")], ALL, id="a well one as large"
        ),
        pytest.param(
            [claim(), unhealthy_volume("pv-a1", zone="a"), volume("pv-a2", zone="a", size="11Gi")],
            IN_B,
            id="kube-scheduler takes the smaller, unhealthy one",
        ),
        pytest.param(
            [claim(), unhealthy_volume("pv-a1", zone="a", size="11Gi"), volume("pv-a2", zone="a")],
            ALL,
            id="the unhealthy one is larger",
        ),
        pytest.param([claim(), unhealthy_volume("pv-a", zone="a", size="9Gi")], ALL, id="too small"),
        pytest.param([claim(), unhealthy_volume("pv-a", zone="a", storage_class="slow")], ALL, id="another class"),
        pytest.param([claim(), unhealthy_volume("pv-a", zone="a", phase="Released")], ALL, id="not available"),
        pytest.param([claim(), unhealthy_volume("pv-a")], [], id="the unhealthy one is everywhere"),
        pytest.param(
            [claim(selector=LabelSelector(dropped_bytes=9**9)), reserved_volume("pv-a", "default/other", zone="a")],
            IN_B,
            id="a selector too large to be read may select the one held for another claim",
        ),
        pytest.param(
            [claim(), unhealthy_volume("pv-a", zone="a", claim="default/data"), volume("pv-b", zone="a")],
            IN_B,
            id="an unhealthy one is bound to the claim already",
        ),
        pytest.param(
            [claim(), unhealthy_volume("pv-a", zone="a", claim="default/other")], ALL, id="of another claim"
        ),
        pytest.param([claim(volume_name="pv-a"), unhealthy_volume("pv-a", zone="a")], ALL, id="claim is bound"),
        pytest.param(
            [claim(annotations={BIND_COMPLETED: "yes"}), unhealthy_volume("pv-a", zone="a")], ALL, id="bind is over"
        ),
        pytest.param(
            [claim(annotations={SELECTED_NODE: "n1"}), unhealthy_volume("pv-a", zone="a")], ALL, id="being provisioned"
        ),
        pytest.param(
            [storage_class("now", binding_mode="Immediate"), claim(storage_class="now"),
             unhealthy_volume("pv-a", zone="a", storage_class="now")], ALL, id="Immediate",
        ),
        pytest.param([unhealthy_volume("pv-a", zone="a")], ALL, id="claim is not known yet"),
        pytest.param([claim(namespace="other"), unhealthy_volume("pv-a", zone="a")], ALL, id="another namespace"),
    ],
)  # fmt: skip
def test_nodes_pass(records: list[Record], passing: list[str]) -> None:
    assert kept(extender([*nodes(), *records]), ALL) == passing


@pytest.mark.parametrize(
    ("volumes", "passing"),
    [
        pytest.param([volume("a1", zone="a"), volume("a2", zone="a")], ALL, id="one each"),
        pytest.param(
            [volume("a1", zone="a"), unhealthy_volume("a2", zone="a")], IN_B, id="the second would be unhealthy"
        ),
        pytest.param(
            [volume("a1", zone="a"), reserved_volume("a2", "default/log", zone="a")], ALL, id="held for the other claim"
        ),
    ],
)
def test_claims_of_one_pod_are_served_one_after_another(volumes: list[Record], passing: list[str]) -> None:
    answers = extender([*nodes(), claim("data"), claim("log"), *volumes])
    assert kept(answers, ALL, claims=["data", "log"]) == passing


def test_a_reason_names_claim_volume_and_what_is_wrong() -> None:
    records: list[Record] = [claim("data"), claim("log", size="20Gi"), unhealthy_volume("pv-a", zone="a")]
    records.append(reserved_volume("pv-b", "default/other", zone="b", size="20Gi"))
    rejected = filtered(extender([*nodes(), *records]), ALL, claims=["data", "log"])["FailedAndUnresolvableNodes"]
    unhealthy = "claim data would get volume pv-a: Unhealthy, Inaccessible: NotFound"
    held = "claim data would get volume pv-b: ReservedForOther, for default/other until 12:05:00Z"
    assert rejected == {"n1": unhealthy, "n2": unhealthy, "n3": held, "n4": held}


def test_a_reservation_ends_by_itself() -> None:
    answers = extender([*nodes(), claim(), reserved_volume("pv-a", "default/other", until=LATER, zone="a")])
    assert kept(answers, ALL) == IN_B
    assert kept(answers, ALL, seconds=300) == ALL


def test_an_unknown_node_passes() -> None:
    answers = extender([*nodes(), claim(), unhealthy_volume("pv-a", zone="a")])
    assert kept(answers, ["n1", "new", "n3"]) == ["new", "n3"]


def test_a_reserved_local_volume_confines_the_pod_to_its_node() -> None:
    local = [volume(f"pv-{name}", node=name) for name in ALL]
    answers = extender([*nodes(), reserved_claim("data", "pv-n3", nodes="n3"), *local])
    assert kept(answers, ALL) == ["n3"]
    # Its node is not among those that fit: the promise cannot be kept now.
    assert kept(answers, IN_A) == IN_A


@pytest.mark.parametrize(
    ("scheduler_name", "passing"), [("ours", IN_B), ("default-scheduler", ALL)], ids=["ours", "another scheduler's"]
)
def test_pods_of_other_schedulers_are_left_alone(scheduler_name: str, passing: list[str]) -> None:
    answers = extender([*nodes(), claim(), unhealthy_volume("pv-a", zone="a")], scheduler_names=["ours"])
    assert kept(answers, ALL, scheduler_name=scheduler_name) == passing


@pytest.mark.parametrize(
    "more",
    [
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]},
        {"schedulingGroup": {"podGroupName": "workers"}},
        {"hostNetwork": True, "hostUsers": False},
        {"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]},
    ],
)
def test_what_only_kube_scheduler_understands_is_left_to_it(more: dict[str, object]) -> None:
    records: list[Record] = [*nodes(), claim(), unhealthy_volume("pv-a", zone="a"), volume("pv-b", zone="b")]
    assert kept(extender(records), ALL, more=more) == IN_B
