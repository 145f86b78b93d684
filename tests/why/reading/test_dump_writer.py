"""What `why dump` writes: what `why -f` reads, with what was read and what not; no secret, and no other namespace."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kube.client.api import KubeApi
from kube.client.transport import Request, Response
from tests.kube.scripted_transport import ScriptedTransport, answer, listing
from tests.why.documents import NAMESPACE, NOW, Document, claim, driver, lease, node, pod, storage_class, volume
from why.errors import WhyError
from why.explain.answering import report_on
from why.facts.facts import FORBIDDEN, Source
from why.reading.dump import Dump, read_dump
from why.reading.dump_writer import DumpWriter
from why.reading.withheld import Withholding

PODS_ELSEWHERE = {Source.ALL_PODS, Source.DRIVER_PODS}
PREFIX = "scheduler.cloud.example/"


def elsewhere(document: Document) -> Document:
    return {**document, "metadata": {**document["metadata"], "namespace": "hush-namespace"}}


def hushed() -> Document:
    """A volume of a claim in another namespace, whose every field may name it."""
    made = volume("pv-2", claim="hush-claim", claim_uid="uid-2", zone="a", metadata={"labels": {"team": "hush-label"}})
    made["metadata"]["annotations"] = {"note": "hush-note", f"{PREFIX}reserved-for": "hush-namespace/x"}
    made["spec"]["claimRef"]["namespace"] = "hush-namespace"
    made["spec"]["csi"] = {"driver": "x", "volumeHandle": "hush-handle", "volumeAttributes": {"a": "hush-value"}}
    made["status"] = {"phase": "Bound", "message": "hush-message"}
    return made


def secretive() -> Document:
    container = {"name": "main", "env": [{"name": "A", "value": "s3cret-env"}], "args": ["s3cret-argument"]}
    annotations = {"token": "s3cret-note", "kubectl.kubernetes.io/last-applied-configuration": "s3cret-copy"}
    made = pod("db-0", "data", metadata={"annotations": annotations, "managedFields": [{"manager": "s3cret-manager"}]})
    made["spec"]["containers"] = [container]
    return made


def busy(name: str) -> Document:
    made = node(name)
    made["metadata"]["annotations"] = {"team": "hush-team"}
    made["status"] |= {"images": [{"names": ["hush-image"]}]}
    made["status"]["volumesInUse"] = [f"kubernetes.io/csi/x^{each}" for each in ("handle-pv-1", "hush-handle")]
    return made


CLUSTER: Mapping[str, Sequence[Document]] = {
    "persistentvolumes": [volume("pv-1", claim="data"), hushed()],
    "persistentvolumeclaims": [claim(volume="pv-1"), elsewhere(claim("hush-claim", volume="pv-2"))],
    "storageclasses": [storage_class()],
    "pods": [secretive(), elsewhere(pod("hush-pod"))],
    "nodes": [busy("a1")],
    "csidrivers": [driver()],
    "leases": [lease("a1", NOW - NOW, "kube-node-lease"), lease("hush-lease", NOW - NOW, "hush-namespace")],
    "namespaces": [],
    "csistoragecapacities": [
        elsewhere({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": {"name": "c"}})
        | {"storageClassName": "fast", "capacity": "1Gi"}
    ],
}


async def written(
    namespace: str = "", *, redacting: bool = False, forbidden: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """The dump, and what was said about it."""

    def respond(request: Request) -> Response:
        kind = request.path.rpartition("/")[2]
        if request.path.endswith(f"/namespaces/{NAMESPACE}"):
            return answer(200, {"metadata": {"name": NAMESPACE}})
        if kind in forbidden:
            return answer(403, {"kind": "Status", "message": f"{kind} is forbidden"})
        scope = request.path.partition("/namespaces/")[2].partition("/")[0]
        kept = [each for each in CLUSTER.get(kind, ()) if not scope or each["metadata"].get("namespace") == scope]
        return answer(200, listing(1, *kept))

    out, lines = io.BytesIO(), list[str]()
    api = KubeApi(ScriptedTransport(respond))
    await DumpWriter(api, namespace, Withholding(namespace, redacting, PREFIX), out).write(NOW, lines.append)
    return out.getvalue().decode(), lines


def read(text: str) -> Dump:
    return read_dump(["-"], io.BytesIO(text.encode()), NOW, PREFIX)


def kinds(text: str) -> dict[str, int]:
    items: list[dict[str, Any]] = json.loads(text)["items"]
    names = [item["kind"] for item in items]
    return {name: names.count(name) for name in names}


async def test_what_is_written_is_read_again() -> None:
    dump = read((await written())[0])
    assert not dump.faults
    assert not dump.facts.skipped
    assert [item.name for item in report_on(dump.facts, (), "").items] == ["hush-pod", "db-0"]
    assert {key for kind in dump.records.values() for key in kind} >= {"pv-1", "web/db-0", "fast", "a1"}


async def test_a_kind_that_the_cluster_lacks_counts_as_read() -> None:
    """A dump by kubectl does not show that."""
    facts = read((await written())[0]).facts
    assert Source.QUOTAS in facts.read
    assert facts.now == NOW


async def test_what_may_not_be_read_is_reported_and_recorded() -> None:
    text, lines = await written(forbidden=["nodes", "pods"])
    assert sorted(lines) == ["left out nodes: forbidden", "left out pods: forbidden"]
    skipped = read(text).facts.skipped
    assert {source for source, because in skipped.items() if because == FORBIDDEN} == {
        Source.NODES,
        *PODS_ELSEWHERE,
        Source.PODS,
    }


async def test_no_other_namespace_is_named_without_the_right_to_all() -> None:
    text, _ = await written(NAMESPACE)
    assert "hush" not in text
    assert kinds(text)["PersistentVolume"] == 2
    assert "handle-pv-1" in text


async def test_of_one_namespace_it_is_known_what_was_left_out() -> None:
    facts = read((await written(NAMESPACE))[0]).facts
    assert (facts.everywhere, facts.namespace) == (False, NAMESPACE)
    assert {*PODS_ELSEWHERE, Source.LEASES, Source.NAMESPACES} == facts.skipped.keys()
    assert "only those of namespace web" in facts.skipped[Source.ALL_PODS]


async def test_no_secret_kind_is_read_and_no_copy_of_an_object_is_kept() -> None:
    text, _ = await written()
    assert "Secret" not in text
    assert "s3cret-copy" not in text
    assert "s3cret-manager" not in text
    assert "s3cret-env" in text


async def test_redacted_it_has_no_environment_no_arguments_and_no_annotations_of_others() -> None:
    text, _ = await written(redacting=True)
    assert "s3cret" not in text
    assert "hush-note" not in text
    assert "hush-value" not in text
    assert f"{PREFIX}reserved-for" in text


async def test_two_dumps_together_are_complete_only_in_what_both_are() -> None:
    first, second = (await written())[0], (await written(forbidden=["nodes"]))[0]
    facts = read(first + second).facts
    assert Source.NODES in facts.skipped
    assert Source.VOLUMES in facts.read


@pytest.mark.parametrize("kept", [0.5, 0.99])
async def test_a_dump_that_ends_too_early_is_no_smaller_cluster(kept: float) -> None:
    text, _ = await written()
    with pytest.raises(WhyError):
        read(text[: int(len(text) * kept)])
