"""The extender as a part of a process that keeps a store: from its settings to a running server."""

import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kube.background import in_background
from kube.clock import Clock
from kube.store.store import Store
from prebinder.config.loopback import is_loopback
from prebinder.config.settings import ExtenderSettings, Settings, parse_address
from prebinder.errors import CommandError, UsageError
from prebinder.metrics.extender import ExtenderMetrics
from prebinder.serving.health_server import Check
from prebinder.serving.serving_certificate import CertificateFiles, ServingCertificate

if TYPE_CHECKING:
    from prebinder.extender.server import ExtenderServer

logger = logging.getLogger(__name__)


class ExtenderPart:
    """Create it before the store's first list. Without an address it does nothing and costs nothing."""

    def __init__(
        self, settings: Settings, store: Store, not_ready: Check, clock: Clock, metrics: ExtenderMetrics
    ) -> None:
        """`not_ready` returns why requests cannot be answered yet, None if they can. Raises UsageError."""
        self._clock = clock
        self._not_ready = not_ready
        self._delay = settings.extender.shutdown_delay_duration.total_seconds()
        address = parse_address(settings.extender.bind_address)
        self._certificate = _certificate(settings.extender, address) if address else None
        self._server = self._server_at(address, settings, store, metrics) if address else None

    def _server_at(
        self, address: tuple[str, int], settings: Settings, store: Store, metrics: ExtenderMetrics
    ) -> "ExtenderServer":
        from prebinder.extender.server import ExtenderServer, Listening  # noqa: PLC0415 - only where there is an address
        from scheduler.extender.extender import Extender  # noqa: PLC0415

        extender = Extender(store, settings.binding.annotations, frozenset(settings.extender.scheduler_names))
        return ExtenderServer(extender, self._not_ready, Listening(*address, self._certificate), self._clock, metrics)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve while inside the context. Raises CommandError if the address is not available."""
        if self._server is None:
            yield
            return
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._server)
            except OSError as error:
                raise CommandError(
                    f"cannot serve the extender: {error.strerror or error}; choose another address with "
                    "--bind-address (--extender-bind-address of the controller)"
                ) from error
            if self._certificate is not None:
                await stack.enter_async_context(in_background(self._certificate.follow(self._clock)))
            yield

    async def drain(self) -> None:
        """Keep answering for a while after a signal: kube-scheduler connects until the Service's endpoints are updated.

        Not needed if this replica was never ready.
        """
        if self._server is None or self._not_ready() is not None:
            return
        logger.info("Draining", extra={"seconds": self._delay})
        self._server.leave()
        await self._clock.sleep(self._delay)


def _certificate(settings: ExtenderSettings, address: tuple[str, int]) -> ServingCertificate | None:
    certificate, key, authority = settings.tls_cert_file, settings.tls_key_file, settings.client_ca_file
    if certificate and key:
        files = CertificateFiles(Path(certificate), Path(key), Path(authority) if authority else None)
        try:
            return ServingCertificate(files)
        except ssl.SSLError as error:
            named = ", ".join(dict.fromkeys(path for path in (certificate, key, authority) if path))
            why = f" ({error.reason})" if error.reason else ""
            raise UsageError(
                f"cannot use the extender's certificate {certificate}: expected matching PEM files in {named}{why}"
            ) from error
        except OSError as error:
            file = error.filename or certificate
            raise UsageError(f"cannot use the extender's certificate {file}: {error.strerror or error}") from error
    if certificate or key or authority:
        raise UsageError("the extender needs both a certificate and its key; a client CA needs them too")
    if not is_loopback(address[0]):
        raise UsageError(
            f'the extender on "{settings.bind_address}" needs a certificate and its key, because it receives whole '
            "pods; without them it serves on a loopback address only, such as 127.0.0.1:8443"
        )
    return None
