"""What is read of a cluster, of which only what is pending is kept."""

import pytest

from binder.matching.rejection import Reason
from kube.client.api import KubeApi
from kube.client.transport import Request, Response
from prebinder.commands.why.why import exit_code, is_over
from prebinder.errors import ExitCode
from tests.kube.scripted_transport import ScriptedTransport, answer, listing
from tests.why.documents import DRIVER, DYNAMIC, INSTALLED, NOW, claim, event, pod, volume
from tests.why.driver_pods import controller
from why.errors import WhyError
from why.explain.answering import answer_live
from why.explain.targets import parse_target
from why.reading.live import LiveReader

COPY = claim("copy", spec={"dataSource": {"kind": "PersistentVolumeClaim", "name": "original"}})
ORIGINAL = claim("original", volume="pv-1")
KINDS = {
    "storageclasses": [DYNAMIC],
    "csidrivers": [INSTALLED[0]],
    "csinodes": [INSTALLED[1]],
    "persistentvolumes": [volume(claim="original")],
}


@pytest.mark.parametrize("claims", [[COPY, ORIGINAL], [ORIGINAL, COPY]], ids=["copy first", "original first"])
async def test_the_original_of_a_copy_is_kept_although_it_is_bound(claims: list[object]) -> None:
    def respond(request: Request) -> Response:
        kind = request.path.rpartition("/")[2]
        return answer(200, listing(1, *(claims if kind == "persistentvolumeclaims" else KINDS.get(kind, []))))

    reader = LiveReader(KubeApi(ScriptedTransport(respond)), "", "scheduler.cloud.example/")
    (item,) = (await answer_live(reader, (), "", NOW)).items
    assert item.name == "copy"
    assert item.code is not Reason.DATA_SOURCE_NOT_READY


def without(*forbidden: str) -> LiveReader:
    """A namespace of which these kinds may not be listed, with a claim of a class that does not exist."""

    def respond(request: Request) -> Response:
        kind = request.path.rpartition("/")[2]
        if kind in forbidden:
            return answer(403, {"kind": "Status", "message": f"{kind} is forbidden"})
        return answer(200, listing(1, *([claim()] if kind == "persistentvolumeclaims" else [])))

    return LiveReader(KubeApi(ScriptedTransport(respond)), "web", "scheduler.cloud.example/")


@pytest.mark.parametrize(
    ("forbidden", "items"), [(("pods", "persistentvolumeclaims"), 0), (("pods",), 1), (("persistentvolumeclaims",), 0)]
)
async def test_what_may_not_be_listed_may_be_pending(forbidden: tuple[str, ...], items: int) -> None:
    report = await answer_live(without(*forbidden), (), "web", NOW)
    assert len(report.items) == items
    assert {(each.resource, each.because) for each in report.skipped} == {(kind, "forbidden") for kind in forbidden}
    assert not report.complete
    assert is_over(report) is (items == 0)
    assert exit_code(report) != ExitCode.FINE


async def test_with_pods_and_claims_the_report_is_complete() -> None:
    assert (await answer_live(without("nodes"), (), "web", NOW)).complete


async def test_of_a_named_object_nothing_else_may_be_pending() -> None:
    report = await answer_live(without("pods"), (parse_target("pvc/data"),), "web", NOW)
    assert report.complete


def without_a_list_of_volumes(status: int) -> LiveReader:
    """A namespace of which volumes may not be listed; one that is named is answered with this status."""

    def respond(request: Request) -> Response:
        if request.path == "/api/v1/persistentvolumes/pv-1":
            return answer(status, volume() if status == 200 else {"kind": "Status"})
        is_listed = not request.path.endswith("/persistentvolumes")
        return answer(200, listing(1)) if is_listed else answer(403, {"kind": "Status"})

    return LiveReader(KubeApi(ScriptedTransport(respond)), "web", "scheduler.cloud.example/")


async def test_a_volume_is_read_by_its_name_where_its_kind_may_not_be_listed() -> None:
    (item,) = (await answer_live(without_a_list_of_volumes(200), (parse_target("pv/pv-1"),), "web", NOW)).items
    assert (item.name, item.code) == ("pv-1", Reason.AVAILABLE)


@pytest.mark.parametrize(("status", "words"), [(403, "request that permission"), (404, "there is no PersistentVolume")])
async def test_a_volume_that_may_not_be_read_is_an_error(status: int, words: str) -> None:
    with pytest.raises(WhyError, match=words):
        await answer_live(without_a_list_of_volumes(status), (parse_target("pv/pv-1"),), "web", NOW)


@pytest.mark.parametrize(("status", "known"), [(200, True), (403, True), (404, False)])
async def test_a_namespace_is_unknown_only_if_the_server_has_none(status: int, known: bool) -> None:
    def respond(request: Request) -> Response:
        assert request.path == "/api/v1/namespaces/web"
        return answer(status, {"kind": "Namespace", "metadata": {"name": "web"}})

    assert await LiveReader(KubeApi(ScriptedTransport(respond)), "web", "p/").knows_namespace() is known


async def test_of_all_pods_only_those_of_drivers_are_kept_to_name_a_log() -> None:
    reporter = f"{DRIVER}_controller-0_uid"
    failed = event(
        "PersistentVolumeClaim", "data", "ProvisioningFailed", "rpc error: code = Internal", reporter=reporter
    )
    listed: list[str] = []

    def respond(request: Request) -> Response:
        kind = request.path.rpartition("/")[2]
        listed.append(request.path)
        everywhere = request.path.endswith("/api/v1/pods")
        objects = {
            "persistentvolumeclaims": [claim()],
            "events": [failed],
            "pods": [controller("controller-0"), pod("web-0")] if everywhere else [],
            **KINDS,
        }
        return answer(200, listing(1, *objects.get(kind, [])))

    reader = LiveReader(KubeApi(ScriptedTransport(respond)), "web", "scheduler.cloud.example/")
    (item,) = (await answer_live(reader, (parse_target("pvc/data"),), "web", NOW)).items
    assert item.next == ("kubectl -n storage logs controller-0 -c csi-provisioner",)
    assert list(reader.facts(NOW).driver_pods) == ["storage/controller-0"]
    assert not reader.facts(NOW).snapshot.pods
    assert listed.count("/api/v1/pods") == 1
