"""What is read of a cluster, of which only what is pending is kept."""

import pytest

from binder.matching.rejection import Reason
from kube.client.api import KubeApi
from kube.client.transport import Request, Response
from prebinder.why.answering import answer_live
from prebinder.why.reading.live import LiveReader
from tests.kube.scripted_transport import ScriptedTransport, answer, listing
from tests.prebinder.why.documents import DYNAMIC, INSTALLED, NOW, claim, volume

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
