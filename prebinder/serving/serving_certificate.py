"""A server's certificate, and the CA of the clients it accepts, reloaded when the files change.

cert-manager and the kubelet rotate files by replacing them. Every handshake uses the latest pair that could be read; a
pair that is half written, or whose key belongs to another certificate, is ignored and the last valid one stays.
"""

import asyncio
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from kube.client.client_certificates import verify_as_kubernetes
from kube.clock import Clock, every
from kube.reloaded_files import ReloadedFiles

POLL_SECONDS: Final = 10.0
"""How often the files are read. The kubelet itself takes up to a minute to bring a changed Secret into a pod."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files. With `client_authority` only clients with a certificate of that CA are accepted."""

    certificate: Path
    key: Path
    client_authority: Path | None = None

    def followed(self) -> ReloadedFiles[ssl.SSLContext]:
        """Return the TLS settings of a server, kept up to date. Raises OSError if the files cannot be used."""
        files = (self.certificate, self.key, self.client_authority)
        return ReloadedFiles([file for file in files if file is not None], self.load)

    def load(self) -> ssl.SSLContext:
        """Load the files into the TLS settings of a server. Raises OSError, of which ssl.SSLError is a subclass."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.client_authority)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        verify_as_kubernetes(context)
        context.load_cert_chain(self.certificate, self.key)
        if self.client_authority is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            # A resumed session is not verified again, so it would outlive the authority that it began with. Before 1.3
            # there is no way to forbid it.
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.num_tickets = 0
        return context


class ServingCertificate:
    """Holds the latest valid certificate. `context` is for the server, and stays the same when files change."""

    def __init__(self, files: CertificateFiles) -> None:
        """Read the files. Raises OSError if they cannot be read or do not belong together."""
        self._name = str(files.certificate)
        self._newest = files.followed()
        self.context = files.load()
        # Called in every handshake, also if the client names no server (it connected to an address).
        self.context.sni_callback = self._show_newest

    async def follow(self, clock: Clock) -> NoReturn:
        """Check the files periodically until cancelled."""
        await every(POLL_SECONDS, clock, self.refresh)

    async def refresh(self) -> None:
        """Use the files if they have changed and are valid."""
        try:
            if await asyncio.to_thread(self._newest.refresh):
                logger.info("Certificate reloaded", extra={"file": self._name})
        except OSError as error:
            logger.warning(
                "Certificate rejected; the previous one stays in use", extra={"file": self._name, "error": str(error)}
            )

    def _show_newest(self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        connection.context = self._newest.value
