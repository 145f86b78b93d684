"""An attacker with the token of one of our accounts, and what the API server answers."""

from collections.abc import Mapping
from typing import Any, Final

from devcluster.cluster import DevCluster
from tests.scenarios.environment.admin import Admin, Document, Rejected
from tests.scenarios.processes.controller import SYSTEM

Patch = Mapping[str, Any]
SCHEDULER: Final = "pvc-prebinder-scheduler"
UNINSTALL: Final = "pvc-prebinder-uninstall"


class Thief:
    """Has the rights of a ServiceAccount, and no others. Each attempt returns the API server's rejection, empty if it
    does what was asked.
    """

    def __init__(self, cluster: DevCluster, account: str, namespace: str = SYSTEM) -> None:
        self._cluster, self._user = cluster, f"system:serviceaccount:{namespace}:{account}"

    async def patch(self, kind: str, name: str, body: Patch, namespace: str = "", subresource: str = "") -> str:
        async with Admin(self._cluster, acting_as=self._user) as client:
            try:
                await client.patch(kind, name, body, namespace, subresource)
            except Rejected as rejected:
                return str(rejected)
        return ""

    async def create(self, document: Document, kind: str = "", subresource: str = "") -> str:
        """Create an object, or create it in a subresource of the object of that kind that has its name."""
        async with Admin(self._cluster, acting_as=self._user) as client:
            try:
                await client.create_in(kind or document["kind"], document, subresource)
            except Rejected as rejected:
                return str(rejected)
        return ""
