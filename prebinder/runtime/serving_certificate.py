"""The certificate a server shows, and the authority of the clients it admits, read anew when the files change.

cert-manager and kubelet rotate files by replacing them. Every handshake takes the newest pair that could be read; a
pair that is half written, or whose key belongs to another certificate, is passed over and the last good one stays.
"""

import asyncio
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from kube.clock import Clock, every

LOOK_SECONDS: Final = 10.0
"""How often the files are looked at. Kubelet itself takes up to a minute to bring a changed Secret into a pod."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files. With `client_authority` only clients that show a certificate of that authority are admitted."""

    certificate: Path
    key: Path
    client_authority: Path | None = None

    def content(self) -> tuple[bytes, ...]:
        """Return what is in the files. Raises OSError."""
        files = (self.certificate, self.key, self.client_authority)
        return tuple(file.read_bytes() for file in files if file is not None)

    def load(self) -> ssl.SSLContext:
        """Return TLS settings of a server with these files. Raises OSError, of which ssl.SSLError is one."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.client_authority)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        if self.client_authority is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context


class ServingCertificate:
    """Holds the newest good certificate. `context` is for the server, and stays the same when files change."""

    def __init__(self, files: CertificateFiles) -> None:
        """Read the files. Raises OSError when they cannot be read or do not belong together."""
        self._files = files
        self._content = files.content()
        self._newest = files.load()
        self.context = files.load()
        # Called in every handshake, also when the client names no server (it asked for an address).
        self.context.sni_callback = self._show_newest

    async def follow(self, clock: Clock) -> NoReturn:
        """Look at the files again and again until cancelled."""
        await every(LOOK_SECONDS, clock, self.refresh)

    async def refresh(self) -> None:
        """Take the files over if they have changed and are good."""
        try:
            content = await asyncio.to_thread(self._files.content)
            if content == self._content:
                return
            # Noted before it is tried: a bad pair is complained about once.
            self._content = content
            self._newest = await asyncio.to_thread(self._files.load)
        except OSError as error:
            logger.warning(
                "Certificate rejected; the previous one stays in use",
                extra={"file": str(self._files.certificate), "error": str(error)},
            )
        else:
            logger.info("Certificate reloaded", extra={"file": str(self._files.certificate)})

    def _show_newest(self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        connection.context = self._newest
