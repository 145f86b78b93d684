"""The verbs of `kube.client.api.KubeApi` as ports: a client of one kind of request depends on nothing else."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from kube.objects.api_resource import Resource


class ObjectReader(Protocol):
    """Reads single objects."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> msgspec.Raw:
        """Return one object. Raises NotFound."""


class ObjectCreator(Protocol):
    """Creates objects, or posts to an object's subresource, as a Binding or an Eviction is."""

    async def create(
        self, resource: Resource, body: Mapping[str, Any], namespace: str = "", *, name: str = "", subresource: str = ""
    ) -> msgspec.Raw:
        """Return the server's response. Raises AlreadyExists, Conflict, NotFound."""


class ObjectPatcher(Protocol):
    """Changes objects that are unchanged since the caller read them."""

    async def conditional_patch(  # noqa: PLR0913 - the preconditions are named, never positional
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        resource_version: str | int,
        namespace: str = "",
        uid: str = "",
        subresource: str = "",
    ) -> msgspec.Raw:
        """Merge-patch the object if it still has that version and uid. Raises Conflict."""


class ReaderAndPatcher(ObjectReader, ObjectPatcher, Protocol):
    """Reads objects, and patches what was read."""


class ReaderAndCreator(ObjectReader, ObjectCreator, Protocol):
    """Creates objects, and reads the result of a request whose response was lost."""
