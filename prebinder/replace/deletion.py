"""The only deletion of this program: one claim, if it is still exactly the object that was judged."""

import msgspec

from kube.client.transport import Request, Transport
from kube.errors import error_from_status
from kube.objects.api_resource import CLAIMS
from kube.objects.model import Claim


class ClaimDeletion:
    """Deletes claims through this transport."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def delete(self, claim: Claim) -> None:
        """Delete the claim. Raises Conflict if it has changed or was created again, NotFound if it is gone, and any
        other KubeError.
        """
        preconditions = {"uid": claim.uid, "resourceVersion": str(claim.resource_version)}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        request = Request("DELETE", CLAIMS.path(claim.namespace, claim.name), body=msgspec.json.encode(options))
        response = await self._transport.send(request)
        if not 200 <= response.status < 300:
            raise error_from_status("DELETE", request.path, response.status, response.body, response.headers)
