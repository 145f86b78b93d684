"""The protocol's words: what is read from a body, in which forms, and what is written."""

import json
from typing import Any

import pytest

from scheduler.extender.wire import (
    Candidates,
    HostPriority,
    MalformedRequest,
    NameLists,
    filter_result,
    priorities,
    read,
)
from tests.scheduler.extender_requests import pod

FULL: dict[str, Any] = {
    "metadata": {},
    "items": [{"metadata": {"name": "n1"}, "spec": {"x": 1}}, {"metadata": {"name": "n2"}}],
}


def read_request(**parts: Any) -> Candidates:
    return read(json.dumps(parts).encode())


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"Pod": pod(), "Nodes": None, "NodeNames": ["n1"]}, id="as Go writes it"),
        pytest.param({"pod": pod(), "nodes": None, "nodenames": ["n1"]}, id="lower case"),
        pytest.param({"pod": pod(), "nodeNames": ["n1"]}, id="as Kubernetes writes everything else"),
        pytest.param({"POD": pod(), "NODES": None, "NODENAMES": ["n1"]}, id="upper case"),
        pytest.param({"Pod": pod(), "nodeNames": ["n1"], "Other": [1]}, id="mixed, with more"),
    ],
)
def test_names_are_read_in_any_letter_case(parts: dict[str, Any]) -> None:
    assert read_request(**parts) == Candidates("default", "default-scheduler", ("data",), ["n1"])


def test_nodes_that_were_sent_whole_are_sent_back_whole() -> None:
    candidates = read_request(Pod=pod(), Nodes=FULL, NodeNames=None)
    assert candidates.names == ["n1", "n2"]
    answer = json.loads(filter_result(candidates, {"n2": "why"}))
    assert answer["Nodes"] == {"metadata": {}, "items": FULL["items"][:1]}
    assert answer["NodeNames"] is None
    assert answer["FailedAndUnresolvableNodes"] == {"n2": "why"}


@pytest.mark.parametrize(
    ("volumes", "claims"),
    [
        pytest.param(None, (), id="none"),
        pytest.param([{"name": "a", "emptyDir": {}}], (), id="of another kind"),
        pytest.param([{"name": "a", "persistentVolumeClaim": {"claimName": "x"}}], ("x",), id="a claim"),
        pytest.param([{"name": "a", "ephemeral": {"volumeClaimTemplate": {}}}], ("web-a",), id="an ephemeral volume"),
        pytest.param([{"name": n, "persistentVolumeClaim": {"claimName": "x"}} for n in "ab"], ("x",), id="one twice"),
    ],
)
def test_claims_of_a_pod(volumes: list[dict[str, Any]] | None, claims: tuple[str, ...]) -> None:
    document = pod()
    document["spec"]["volumes"] = volumes
    assert read_request(Pod=document, NodeNames=[]).claims == claims


def test_what_is_missing_has_kubernetes_defaults() -> None:
    bare = {"metadata": {"name": "web"}, "spec": {}}
    assert read_request(Pod=bare, NodeNames=[]) == Candidates("default", "default-scheduler", (), [])


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        pytest.param(b"", "expected ExtenderArgs as JSON", id="nothing"),
        pytest.param(b"{}", "expected Pod, found none", id="an empty object"),
        pytest.param(b"null", "ExtenderArgs", id="null"),
        pytest.param(b"[]", "ExtenderArgs", id="a list"),
        pytest.param(b'{"Pod": null, "NodeNames": ["n1"], "Nodes": null}', "expected Pod, found none", id="no pod"),
        pytest.param(
            b'{"Pod": {"metadata": {}, "spec": {}}}', "expected NodeNames or Nodes, found neither", id="no nodes"
        ),
        pytest.param(b'{"Pod": {"spec": {}}, "NodeNames": []}', "metadata", id="a pod without metadata"),
        pytest.param(b'{"Pod": {"metadata": {}}, "NodeNames": []}', "spec", id="a pod without spec"),
        pytest.param(b'{"Pod": {"metadata": {}, "spec": {}}, "NodeNames": [1]}', "Expected `str`", id="a number"),
        pytest.param(b'{"Pod": {"metadata": {}, "spec": {}}, "Nodes": {"items": [1]}}', "ExtenderArgs", id="no node"),
        pytest.param(b"\xff\xfe", "expected ExtenderArgs as JSON", id="not UTF-8"),
        pytest.param(b"<html>", "expected ExtenderArgs as JSON", id="HTML"),
        pytest.param(b'{"Pod": ' + b"[" * 100_000, "ExtenderArgs", id="a deep nest"),
    ],
)
def test_anything_else_is_rejected_with_what_was_expected(body: bytes, complaint: str) -> None:
    with pytest.raises(MalformedRequest, match=complaint.replace("(", r"\(")):
        read(body)


def test_answers_are_written_in_gos_names_and_never_empty() -> None:
    """`{}` would mean that no node fits."""
    candidates = read_request(Pod=pod(), NodeNames=["n1", "n2"])
    assert json.loads(filter_result(candidates, {})) == {
        "Nodes": None,
        "NodeNames": ["n1", "n2"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    assert json.loads(filter_result(candidates, {"n1": "a", "n2": "b"}))["NodeNames"] == []
    assert priorities([HostPriority("n1", 7)]) == b'[{"Host":"n1","Score":7}]'


def test_a_cached_list_is_never_returned_for_another() -> None:
    lists = NameLists()
    for names in (["n1"], ["n1"], ["n2"], [], ["n1"]):
        assert read(json.dumps({"Pod": pod(), "Nodes": None, "NodeNames": names}).encode(), lists).names == names
    for wrong in ([1], None):
        with pytest.raises(MalformedRequest):
            read(json.dumps({"Pod": pod(), "Nodes": None, "NodeNames": wrong}).encode(), lists)
    assert read(json.dumps({"Pod": pod(), "Nodes": None, "NodeNames": ["n1"]}).encode(), lists).names == ["n1"]
