"""TLS towards the API server: which authority is trusted, and the client's own certificate, read again when the files
change.

The authority of a cluster is rotated, and so are client certificates. New connections use the files of the moment, as
those of client-go do (transport/ca_rotation.go, cert_rotation.go).
"""

import logging
import ssl
from pathlib import Path
from typing import Final

from kube.client.credentials import ApiServer, Credentials
from kube.errors import KubeconfigError
from kube.reloaded_files import ReloadedFiles

POLL_SECONDS: Final = 60.0
"""How often the files are read."""

logger = logging.getLogger(__name__)


class ClientCertificates:
    """Holds the TLS settings of a client. `context` is another one after the files have changed."""

    def __init__(self, credentials: Credentials) -> None:
        """Read the files. Raises KubeconfigError if they cannot be used."""
        server, self._clock = credentials.server, credentials.clock
        self._names = [file for file in (server.certificate_authority, server.certificate, server.key) if file]
        self._looked_at = self._clock.monotonic()
        try:
            self._files = ReloadedFiles([Path(name) for name in self._names], lambda: _load(server))
        except OSError as error:
            raise KubeconfigError(f"cannot use the certificates of {credentials.source}: {error}") from error

    @property
    def context(self) -> ssl.SSLContext:
        return self._files.value

    def refresh(self) -> None:
        """Use the files if they have changed since they were read, a minute ago or earlier, and can be used."""
        if self._clock.monotonic() - self._looked_at < POLL_SECONDS:
            return
        self._looked_at = self._clock.monotonic()
        try:
            self._files.refresh()
        except OSError as error:
            logger.warning(
                "Certificates rejected; the previous ones stay in use",
                extra={"file": self._names[0], "error": str(error)},
            )


def _load(server: ApiServer) -> ssl.SSLContext:
    """Return the TLS settings of a client. Raises OSError, of which ssl.SSLError is a subclass."""
    context = ssl.create_default_context(cafile=server.certificate_authority or None)
    if server.certificate:
        context.load_cert_chain(server.certificate, server.key or None)
    verify_as_kubernetes(context)
    return context


def verify_as_kubernetes(context: ssl.SSLContext) -> None:
    """Accept the certificates that Go accepts, on every version of Python. Chain, dates and host name are verified.

    They need neither key ids nor key usage, which Python 3.13 requires and many CAs leave out, and a trusted authority
    need not be a root.
    """
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
