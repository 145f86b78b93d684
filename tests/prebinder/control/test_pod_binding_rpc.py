"""`bind.pod` and `unbind.pod`, from their parameters to what is answered."""

from pathlib import Path
from typing import Any

import pytest

from binder.matching.rejection import Reason, Rejection
from prebinder.control.cbor_rpc import RpcError
from prebinder.control.pod_binding_rpc import CODES, MAX_REJECTIONS, TIMED_OUT, pod_binding_methods
from scheduler.binding.pod_binding import Bound, Rejected, RejectionReason, Released
from tests.prebinder.control_port import Scripted, controlled

POD: dict[str, Any] = {"namespace": "default", "name": "web-0"}


async def test_a_bound_pod_is_answered_with_its_node_and_volumes(tmp_path: Path) -> None:
    binding = Scripted(Bound("n1", "a", {"data": "pv-1"}, ("log",)))
    async with controlled(tmp_path, binding) as control:
        response = await control.call("bind.pod", POD | {"uid": "1-2", "node": "n1"})
    assert response["result"] == {"node": "n1", "zone": "a", "volumes": {"data": "pv-1"}, "provisioned": ["log"]}
    assert binding.calls == [("bind", "default/web-0", "1-2", "n1")]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(Released("n1"), {"released": True, "node": "n1"}, id="something was reserved"),
        pytest.param(Released(), {"released": False, "node": ""}, id="nothing was"),
    ],
)
async def test_an_unbound_pod_is_answered(answer: Released, expected: object, tmp_path: Path) -> None:
    binding = Scripted(answer)
    async with controlled(tmp_path, binding) as control:
        assert (await control.call("unbind.pod", POD))["result"] == expected
    assert binding.calls == [("unbind", "default/web-0", "")]


@pytest.mark.parametrize("rejection", RejectionReason)
@pytest.mark.parametrize("method", ["bind.pod", "unbind.pod"])
async def test_every_rejection_has_a_code_of_its_own(method: str, rejection: RejectionReason, tmp_path: Path) -> None:
    async with controlled(tmp_path, Scripted(Rejected(rejection, "not now"))) as control:
        response = await control.call(method, POD)
    assert response["error"] == {"code": CODES[rejection], "message": "not now", "data": {"reason": str(rejection)}}


def test_codes_are_servers_own_and_differ() -> None:
    codes = [*CODES.values(), TIMED_OUT]
    assert len(set(codes)) == len(codes) == len(RejectionReason) + 1
    assert all(-32099 <= code <= -32000 for code in codes)


async def test_rejections_are_returned_with_their_evidence_up_to_a_limit(tmp_path: Path) -> None:
    rejections = tuple(
        Rejection(Reason.INSUFFICIENT_RESOURCES, f"n{number}", "2 cpu", "1 cpu") for number in range(MAX_REJECTIONS + 7)
    )
    async with controlled(
        tmp_path, Scripted(Rejected(RejectionReason.REJECTED, "no node fits", rejections))
    ) as control:
        data = (await control.call("bind.pod", POD))["error"]["data"]
    assert data["rejections"][0] == {
        "subject": "n0",
        "reason": "InsufficientResources",
        "wanted": "2 cpu",
        "offered": "1 cpu",
    }
    assert (len(data["rejections"]), data["more"]) == (MAX_REJECTIONS, 7)


@pytest.mark.parametrize(
    ("method", "params", "problem"),
    [
        pytest.param("bind.pod", {}, "params.namespace: is required", id="nothing"),
        pytest.param("bind.pod", {"namespace": "a"}, "params.name: is required", id="no name"),
        pytest.param("bind.pod", POD | {"x": 1}, "params.x: unknown key; expected namespace, name, uid, node", id="x"),
        pytest.param("unbind.pod", POD | {"node": "n1"}, "params.node: unknown key", id="unbind has no node"),
        pytest.param("bind.pod", POD | {"name": 1}, "params.name: expected a string, found 1", id="a number"),
        pytest.param("bind.pod", POD | {"name": b"web-0"}, "params.name: expected a string, found bytes", id="bytes"),
        pytest.param("bind.pod", POD | {"name": ""}, "params.name: expected lower-case", id="an empty name"),
        pytest.param("bind.pod", POD | {"name": "web\n"}, "params.name: expected lower-case", id="a line end"),
        pytest.param("bind.pod", POD | {"name": "a/b"}, "params.name: expected lower-case", id="a name with a slash"),
        pytest.param("bind.pod", POD | {"name": "x" * 254}, "params.name: expected at most 253 char", id="a long name"),
        pytest.param("bind.pod", POD | {"namespace": "a.b"}, "params.namespace: expected lower", id="a dot"),
        pytest.param("bind.pod", POD | {"namespace": "x" * 64}, "params.namespace: expected at most 63", id="long"),
        pytest.param("bind.pod", POD | {"uid": ""}, "params.uid: is empty", id="an empty uid"),
        pytest.param(
            "bind.pod", POD | {"node": ["n1"]}, "params.node: expected a string, found a list", id="two nodes"
        ),
        pytest.param("bind.pod", {1: 2}, "params: ", id="keys that are no text"),
    ],
)
async def test_wrong_parameters_are_named(method: str, params: object, problem: str, tmp_path: Path) -> None:
    binding = Scripted(Bound("n1"))
    async with controlled(tmp_path, binding) as control:
        error = (await control.call(method, params))["error"]
    assert error["code"] == -32602
    assert error["message"].startswith(problem), error
    assert binding.calls == []


async def test_a_pod_that_takes_long_is_not_waited_for_for_ever() -> None:
    methods = pod_binding_methods(lambda: Scripted(None), seconds=0.01)
    with pytest.raises(RpcError, match="the operation continues") as raised:
        await methods["bind.pod"](POD)
    assert raised.value.code == TIMED_OUT
