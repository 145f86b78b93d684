"""The verb preempt: no pod dies for one that would be rejected on the node all the same."""

import json
from typing import Any

import pytest

from scheduler.extender.extender import Extender
from scheduler.extender.wire import MalformedRequest
from tests.builders import claim
from tests.scheduler.extender_requests import (
    NOW,
    extender,
    filtered,
    nodes,
    pod,
    proposed,
    reserved_claim,
    reserved_volume,
    unhealthy_volume,
)

VICTIMS = {"n1": ["u1"], "n2": ["u2", "u3"], "n3": ["u4"]}


def left(answers: Extender, body: bytes) -> dict[str, Any]:
    answer = answers.preempt(body, NOW)
    result: dict[str, Any] = json.loads(answer.body)["NodeNameToMetaVictims"]
    assert (answer.nodes_in, answer.nodes_out) == (3, len(result))
    return result


@pytest.mark.parametrize(
    ("records", "kept"),
    [
        pytest.param([claim()], {"n1", "n2", "n3"}, id="nothing-against-any"),
        pytest.param([claim(), unhealthy_volume("pv-a", zone="a")], {"n3"}, id="unhealthy"),
        pytest.param([claim(), reserved_volume("pv-b", "other/data", zone="b")], {"n1", "n2"}, id="held-for-another"),
        pytest.param(
            [reserved_claim("data", "pv-local", nodes="n2"), reserved_volume("pv-local", "default/data", node="n2")],
            {"n2"},
            id="a-local-volume-is-reserved",
        ),
    ],
)
def test_only_nodes_where_the_filter_would_take_the_pod_are_left(records: list[Any], kept: set[str]) -> None:
    answers = extender([*nodes("aab"), *records])
    result = left(answers, proposed(VICTIMS, violations=1))
    assert result == {node: {"Pods": [{"UID": uid} for uid in VICTIMS[node]], "NumPDBViolations": 1} for node in kept}
    assert set(filtered(answers, list(VICTIMS))["NodeNames"]) == kept


def test_pods_of_other_schedulers_are_not_our_affair() -> None:
    answers = extender([*nodes("aab"), claim(), unhealthy_volume("pv-a", zone="a")], scheduler_names=["ours"])
    assert set(left(answers, proposed(VICTIMS))) == set(VICTIMS)
    assert set(left(answers, proposed(VICTIMS, scheduler_name="ours"))) == {"n3"}


def test_victims_that_were_sent_whole_come_back_by_uid() -> None:
    whole = {node: {"Pods": [{"metadata": {"uid": uid}, "spec": {}} for uid in uids]} for node, uids in VICTIMS.items()}
    body = {"pod": pod(), "nodeNameToVictims": whole}
    result = left(extender([*nodes("aab"), claim(), unhealthy_volume("pv-a", zone="a")]), json.dumps(body).encode())
    assert result == {"n3": {"Pods": [{"UID": "u4"}], "NumPDBViolations": 0}}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        pytest.param(b"{", "expected ExtenderPreemptionArgs as JSON", id="no-json"),
        pytest.param(b"[]", "ExtenderPreemptionArgs: Expected `object`", id="a-list"),
        pytest.param(json.dumps({"Pod": pod()}).encode(), "NodeNameToMetaVictims or NodeNameToVictims", id="no-nodes"),
        pytest.param(b'{"NodeNameToMetaVictims": {}}', "expected Pod, found none", id="no-pod"),
        pytest.param(b'{"Pod": null, "NodeNameToMetaVictims": {}}', "expected Pod, found none", id="null-pod"),
        pytest.param(
            json.dumps({"Pod": pod(), "NodeNameToMetaVictims": {"n1": {"Pods": [1]}}}).encode(), "Pods", id="pods"
        ),
    ],
)
def test_what_kube_scheduler_does_not_send_is_rejected(body: bytes, complaint: str) -> None:
    with pytest.raises(MalformedRequest, match=complaint):
        extender(nodes()).preempt(body, NOW)
