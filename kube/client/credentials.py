"""An API server and an identity there: that of a kubeconfig, of the pod's service account, or a caller's.

Raises KubeconfigError, with one sentence for the user, for whatever cannot be used.
"""

import asyncio
import logging
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from math import inf
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from kube.clock import Clock
from kube.errors import KubeconfigError
from kube.redaction import redacted

logger = logging.getLogger(__name__)

REFRESH_SECONDS: Final = 60.0
"""How long credentials are used before the token file is read, or the exec plugin run, again."""

REJECTED_SECONDS: Final = 10.0
"""The same once the API server has rejected them (401)."""

LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Where an API server is and how the two sides prove who they are. Empty texts are what is not configured.

    Certificates and the key are paths of files. `called` is how people know it: by its context.
    """

    address: str
    certificate_authority: str = ""
    server_name: str = ""
    proxy: str = ""
    certificate: str = ""
    key: str = ""
    called: str = field(default="", compare=False)


class UserIdentity(Protocol):
    """Who sends the requests. `header` is that of Authorization, None for a client certificate alone."""

    @property
    def header(self) -> str | None: ...

    async def renew(self) -> None:
        """Read or obtain the header again. Raises KubeconfigError."""

    def is_valid(self, now: datetime) -> bool:
        """Whether requests may use the present header while a new one is being obtained."""

    def invalidate(self) -> None:
        """Note that the API server has rejected the header."""


class CallerToken:
    """A token that its caller keeps up to date."""

    def __init__(self, token: str) -> None:
        self.header = f"Bearer {token}"

    async def renew(self) -> None: ...

    def is_valid(self, now: datetime) -> bool:  # noqa: ARG002
        return True

    def invalidate(self) -> None: ...


class ServiceAccountToken:
    """The token that the kubelet writes into a pod, and rotates. While it cannot be read, the last one stays in use."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.header = self._read()
        self._is_readable = True

    async def renew(self) -> None:
        try:
            self.header = self._read()
        except (OSError, ValueError) as error:
            if self._is_readable:
                logger.warning(
                    "Service account token cannot be read; the previous one stays in use",
                    extra={"file": str(self._file), "error": str(error)},
                )
            self._is_readable = False
        else:
            self._is_readable = True

    def is_valid(self, now: datetime) -> bool:  # noqa: ARG002
        """False: reading a file is fast, and it does not state its expiry."""
        return False

    def invalidate(self) -> None: ...

    def _read(self) -> str:
        token = self._file.read_text(encoding="utf-8").strip()
        if not token:
            raise ValueError(f"{self._file} is empty")
        return f"Bearer {token}"


Impersonation = tuple[tuple[str, str], ...]
"""Headers that name the user whose rights the requests have instead."""


@dataclass(frozen=True, slots=True)
class CallerOptions:
    """What a caller asks of its requests: with whose rights, instead of those of the configuration, and how long each
    may take: zero for as long as it takes, None for the default of its kind.
    """

    impersonation: Impersonation = ()
    request_timeout: timedelta | None = None


BY_CONFIGURATION: Final = CallerOptions()
"""Nothing is asked that the configuration does not say."""


def impersonation(user: str | None, groups: Sequence[str]) -> Impersonation:
    """Return the headers for this user and these groups, none without a user."""
    if not user:
        return ()
    return (("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups))


class Credentials:
    """An API server and an identity that is kept up to date.

    `source` names their origin, for messages. `namespace` is that of the context. `impersonation` are the headers that
    name the user whose rights the requests have instead (`as` in a kubeconfig).
    """

    def __init__(
        self,
        server: ApiServer,
        identity: UserIdentity,
        source: str,
        clock: Clock,
        namespace: str = "default",
        impersonation: Impersonation = (),
    ) -> None:
        self.server = server
        self.source = source
        self.namespace = namespace
        self.impersonation = impersonation
        self._identity = identity
        self.clock = clock
        self._refreshed_at = clock.monotonic()
        self._refreshing: asyncio.Task[None] | None = None

    async def authorization(self) -> str | None:
        """Return the Authorization header, or None for a client certificate alone.

        If the last refresh is a minute old, the token is read or obtained again: before returning, or in the background
        while the present one is still valid. Raises KubeconfigError if that fails and no valid one is left.
        """
        if self.clock.monotonic() - self._refreshed_at >= REFRESH_SECONDS:
            refreshing = self._refresh()
            if not self._identity.is_valid(self.clock.now()):
                try:
                    await asyncio.shield(refreshing)
                except KubeconfigError as error:
                    raise KubeconfigError(f"cannot refresh the credentials of {self.source}: {error}") from error
        return self._identity.header

    def rejected(self) -> None:
        """Note that the API server answered 401: the next request refreshes first, unless that was done just now."""
        if self.clock.monotonic() - self._refreshed_at >= REJECTED_SECONDS:
            self._identity.invalidate()
            self._refreshed_at = -inf

    async def close(self) -> None:
        """Cancel a refresh that is in progress."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing})

    def _refresh(self) -> "asyncio.Task[None]":
        """Return the refresh in progress, or start one."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._renewed())
            self._refreshing.add_done_callback(self._log_failure)
        return self._refreshing

    async def _renewed(self) -> None:
        await self._identity.renew()
        self._refreshed_at = self.clock.monotonic()

    def _log_failure(self, refreshing: "asyncio.Task[None]") -> None:
        """Log why a refresh in the background failed; the next request retries it."""
        error = None if refreshing.cancelled() else refreshing.exception()
        if error is not None:
            message = redacted(str(error)) or type(error).__name__
            logger.warning("Credential refresh failed", extra={"source": self.source, "error": message})


def proxy_for(credentials: Credentials) -> str | None:
    """Return the proxy's address with its user and password, or None for a direct connection.

    It is the kubeconfig's proxy-url, else HTTPS_PROXY and the like unless NO_PROXY names the host or its network. An
    address without a scheme counts as http, as in client-go. Raises KubeconfigError for an invalid address.
    """
    server = credentials.server
    address, origin = urlsplit(server.address), f"proxy-url of {credentials.source}"
    proxy, host = server.proxy, address.hostname
    if not proxy:
        if host in LOOPBACK or urllib.request.proxy_bypass(address.netloc) or _in_no_proxy(host):
            return None
        proxy, origin = urllib.request.getproxies_environment().get(address.scheme, ""), f"{address.scheme}_proxy"
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(proxy)
        usable = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        # The address itself is not shown: it may hold a password.
        raise KubeconfigError(f"{origin} is not a proxy address; expected http://HOST:PORT or https://HOST:PORT")
    return proxy


def _in_no_proxy(host: str | None) -> bool:
    """Whether a host is an address on loopback or in a network of NO_PROXY, which urllib does not know and Go does
    (golang.org/x/net http/httpproxy/proxy.go).
    """
    try:
        address = ip_address(host or "")
    except ValueError:
        return False
    entries = urllib.request.getproxies_environment().get("no", "").split(",")
    return address.is_loopback or any(address in network for network in _networks(entries))


def _networks(entries: list[str]) -> Iterator[IPv4Network | IPv6Network]:
    for entry in entries:
        with suppress(ValueError):
            yield ip_network(entry.strip().strip("[]"), strict=False)
