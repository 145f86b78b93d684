"""The only deletion of the product."""

import re
from pathlib import Path

import msgspec
import pytest

from kube.client.transport import Request, Response
from kube.errors import Conflict
from prebinder.replace.deletion import ClaimDeletion
from tests.builders import claim

ROOT = Path(__file__).parents[3]
PRODUCT = ("prebinder", "why", "scheduler", "binder", "csi", "kube")


class _Recorded:
    def __init__(self, status: int) -> None:
        self.status, self.requests = status, list[Request]()

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        return Response(self.status, b'{"kind":"Status","reason":"Conflict"}')

    def stream(self, request: Request) -> object:
        raise NotImplementedError


async def test_a_claim_is_deleted_only_as_it_was_read() -> None:
    transport = _Recorded(200)
    await ClaimDeletion(transport).delete(claim("data", uid="u", resource_version=7))  # type: ignore[arg-type]
    (request,) = transport.requests
    assert (request.method, request.path) == ("DELETE", "/api/v1/namespaces/default/persistentvolumeclaims/data")
    assert msgspec.json.decode(request.body or b"")["preconditions"] == {"uid": "u", "resourceVersion": "7"}


async def test_a_claim_that_changed_is_not_deleted() -> None:
    with pytest.raises(Conflict):
        await ClaimDeletion(_Recorded(409)).delete(claim("data"))  # type: ignore[arg-type]


def test_nothing_else_of_the_product_deletes_and_only_the_command_uses_this() -> None:
    sources = {path: path.read_text() for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))}
    deleting = [path for path, text in sources.items() if re.search(r"""["']DELETE["']\s*,""", text)]
    assert [str(path.relative_to(ROOT)) for path in deleting] == ["prebinder/replace/deletion.py"]
    using = [path for path, text in sources.items() if re.search(r"^\s*(from|import) prebinder\.replace\b", text, re.M)]
    outside = [path for path in using if path.parent.name != "replace"]
    assert [str(path.relative_to(ROOT)) for path in outside] == ["prebinder/commands/replace.py"]
