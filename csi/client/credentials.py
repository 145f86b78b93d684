"""The certificates for an endpoint, as bytes: none for a unix socket, those of both sides for tcp.

gRPC for Python takes certificates when a channel is created and never reloads them. So rotation needs a new channel:
the caller reads the files again to see whether they have changed.
"""

from dataclasses import dataclass
from pathlib import Path

from csi.client.endpoint import Endpoint, reject_plain


@dataclass(frozen=True, slots=True)
class Material:
    """The content of the PEM files: nothing for a unix socket."""

    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""


def material(endpoint: Endpoint) -> Material:
    """Read the files of the endpoint. Raises OSError; ValueError for tcp without any."""
    rejection = reject_plain(endpoint)
    if rejection is not None:
        raise ValueError(rejection)
    files = endpoint.tls
    if not endpoint.remote or files is None:
        return Material()
    return Material(*(Path(file).read_bytes() for file in (files.authority, files.certificate, files.key)))
