"""Which configuration of a cluster applies, and the real transport to it: HTTP to an API server with aiohttp."""

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from yarl import URL

from kube.client.client_certificates import ClientCertificates
from kube.client.credentials import (
    BY_CONFIGURATION,
    ApiServer,
    CallerOptions,
    Credentials,
    ServiceAccountToken,
    proxy_for,
)
from kube.client.transport import Request, Response, StreamResponse
from kube.clock import Clock, SystemClock
from kube.errors import KubeconfigError, Unavailable
from kube.redaction import redacted

CONNECT_SECONDS: Final = 10.0
"""Total time for a new connection: name resolution, TCP, a proxy's response to CONNECT, TLS."""

TCP_SECONDS: Final = 5.0
"""For one address of the server or the proxy, so that there is time to try another."""

REQUESTS_AT_ONCE: Final = 100
"""Requests that may wait for their response at the same time. Watches and urgent requests do not count and never
wait.
"""

IDLE_SECONDS: Final = 80.0
"""For which an unused connection is kept. The API server closes it after 90 (IdleTimeout in secure_serving.go)."""

MAX_LINE_BYTES: Final = 32 * 2**20
"""Bytes. etcd rejects objects far below this, so a longer line is no object but would exhaust our memory."""


SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet writes, and rotates, a pod's token."""


class LineTooLong(Exception):
    """A line grew past MAX_LINE_BYTES without ending."""


_NO_ANSWER: Final = (aiohttp.ClientError, OSError, TimeoutError, KubeconfigError, LineTooLong)


async def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    clock: Clock | None = None,
    *,
    connect_seconds: float = CONNECT_SECONDS,
    caller: CallerOptions = BY_CONFIGURATION,
) -> "KubernetesTransport":
    """Return a transport to the configured cluster; close it, or use it in `async with`.

    Tries `kubeconfig`, $KUBECONFIG, ~/.kube/config and the pod's service account, in this order. Raises KubeconfigError
    with a sentence for the user. Sends no request yet.
    """
    credentials = await load_credentials(kubeconfig, context, clock or SystemClock())
    return KubernetesTransport(credentials, connect_seconds, caller)


async def load_credentials(
    kubeconfig: str | None,
    context: str | None,
    clock: Clock,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Credentials:
    """Find and read the configuration: `kubeconfig`, else $KUBECONFIG, else ~/.kube/config, else the pod's."""
    paths = _paths(kubeconfig, environ)
    if paths is not None:
        # The official client costs 20 MB and 0.2 s of processor time, which a pod can do without.
        from kube.client.kubeconfig import credentials_of  # noqa: PLC0415

        return await credentials_of(paths, context, clock)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        if context is not None:
            raise KubeconfigError(
                f'there is no context "{context}": a pod without a kubeconfig uses its service account; '
                "pass --kubeconfig FILE, or leave out --context"
            )
        return _of_pod(clock, environ, service_account)
    raise KubeconfigError(
        "no cluster configured: $KUBECONFIG is not set, ~/.kube/config does not exist, and this is not a pod; "
        "pass --kubeconfig FILE"
    )


async def find_api_server(
    kubeconfig: str | None,
    context: str | None,
    clock: Clock,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> ApiServer:
    """Return the API server of the configuration that `load_credentials` finds, without an identity of our own.

    In a pod only `ca.crt` has to be mounted: a service account's token is neither needed nor read.
    """
    if not (kubeconfig or context or environ.get("KUBECONFIG")) and environ.get("KUBERNETES_SERVICE_HOST"):
        return _api_server_of_pod(environ, service_account)
    credentials = await load_credentials(kubeconfig, context, clock, environ=environ, service_account=service_account)
    return replace(credentials.server, certificate="", key="")


def _paths(kubeconfig: str | None, environ: Mapping[str, str]) -> str | None:
    chosen = kubeconfig or environ.get("KUBECONFIG")
    if chosen:
        if not any(Path(path).expanduser().is_file() for path in chosen.split(os.pathsep) if path):
            named = "--kubeconfig" if kubeconfig else "$KUBECONFIG"
            raise KubeconfigError(f"kubeconfig {chosen} (from {named}) does not exist")
        return chosen
    try:
        default = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
        return str(default) if default.is_file() else None
    except (OSError, RuntimeError):  # a home directory that may not be read, or a user without one
        return None


def _api_server_of_pod(environ: Mapping[str, str], service_account: Path) -> ApiServer:
    """Return what the kubelet tells each container: the environment of the service `kubernetes`, and its authority."""
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT") or "443"
    authority = service_account / "ca.crt"
    if not authority.is_file():
        raise KubeconfigError(f"{authority} does not exist: mount the ConfigMap kube-root-ca.crt there")
    return ApiServer(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", str(authority))


def _of_pod(clock: Clock, environ: Mapping[str, str], service_account: Path) -> Credentials:
    source = "the pod's service account"
    try:
        identity = ServiceAccountToken(service_account / "token")
    except (OSError, ValueError) as error:
        raise KubeconfigError(
            f"cannot use {source}: {error}; does the pod set automountServiceAccountToken: false?"
        ) from error
    server = _api_server_of_pod(environ, service_account)
    return Credentials(server, identity, source, clock, _namespace_in(service_account / "namespace"))


def _namespace_in(file: Path) -> str:
    """Return the pod's namespace, which the kubelet writes beside its token."""
    try:
        return file.read_text(encoding="utf-8").strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


class KubernetesTransport:
    """Sends requests to one API server. TLS is always verified; the environment's proxies are used explicitly.

    `namespace` is that of the configuration's context; commands use it if none is given. `cluster` names the context
    and its cluster, or the server's address.
    """

    def __init__(
        self,
        credentials: Credentials,
        connect_seconds: float = CONNECT_SECONDS,
        caller: CallerOptions = BY_CONFIGURATION,
    ) -> None:
        self.server = credentials.server.address
        self.namespace = credentials.namespace
        self.cluster = credentials.server.called or self.server
        self._url = URL(self.server)
        self._credentials = credentials
        self._connect_seconds = connect_seconds
        self._request_timeout = caller.request_timeout
        self._turns = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._options: dict[str, Any] = {"allow_redirects": False, **_proxy(credentials)}
        if credentials.server.server_name:
            self._options["server_hostname"] = credentials.server.server_name
        self._certificates = ClientCertificates(credentials)
        # trust_env makes aiohttp look for proxies and .netrc in a thread for every request: 2.4 times the CPU.
        self._session = aiohttp.ClientSession(
            # Unlimited: with a limit the Lease and the watches would wait for a connection, and the `connect` timeout
            # would expire.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=2**20,
            # Inside a cluster the server's CPU costs more than bandwidth; kube-controller-manager does the same.
            headers=[
                ("User-Agent", f"pvc-prebinder/{version('pvc-prebinder')}"),
                ("Accept-Encoding", "identity"),
                *(caller.impersonation or credentials.impersonation),
            ],
        )

    async def send(self, request: Request) -> Response:
        """Return the complete response within the request's timeout, which includes waiting and connecting."""
        try:
            async with asyncio.timeout(self._seconds_for(request)), nullcontext() if request.urgent else self._turns:
                answer = await self._open(request, silence=None)
                async with answer:
                    return Response(answer.status, await answer.read(), answer.headers)
        except _NO_ANSWER as error:
            raise self._unavailable(request, error) from error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        """Return the response line by line. A silence longer than the request's timeout ends it."""
        try:
            answer = await self._open(request, silence=request.timeout)
        except _NO_ANSWER as error:
            raise self._unavailable(request, error) from error
        try:
            yield StreamResponse(answer.status, self._lines(request, answer), answer.headers)
        finally:
            answer.close()

    async def close(self) -> None:
        await self._credentials.close()
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _open(self, request: Request, silence: float | None) -> aiohttp.ClientResponse:
        headers, body = {"Accept": request.accept}, None
        if request.body is not None:
            headers["Content-Type"] = request.content_type
            body = aiohttp.BytesPayload(request.body)
        self._certificates.refresh()
        authorization = await self._credentials.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        answer = await self._session.request(
            request.method,
            self._url_of(request),
            data=body,
            headers=headers,
            ssl=self._certificates.context,
            timeout=aiohttp.ClientTimeout(
                total=None, connect=self._connect_seconds, sock_connect=TCP_SECONDS, sock_read=silence
            ),
            **self._options,
        )
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._credentials.rejected()
        return answer

    def _seconds_for(self, request: Request) -> float | None:
        if self._request_timeout is None:
            return request.timeout
        return self._request_timeout.total_seconds() or None

    def _url_of(self, request: Request) -> URL:
        # Paths are already quoted. Parsing and quoting each one again is a tenth of what a small request costs.
        url = self._url.with_path(self._url.raw_path.rstrip("/") + request.path, encoded=True)
        return url.with_query(request.query) if request.query else url

    async def _lines(self, request: Request, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for line in split_lines(answer.content.iter_any()):
                yield line
        except _NO_ANSWER as error:
            raise self._unavailable(request, error) from error

    def _unavailable(self, request: Request, error: Exception) -> Unavailable:
        cause = redacted(_cause_of(error)) or type(error).__name__
        source = self._credentials.source
        question = f"is the API server running, and is the address in {source} correct?"
        if isinstance(error, aiohttp.ClientProxyConnectionError):
            question = f"is the proxy {self._options['proxy']} running?"
        elif isinstance(error, aiohttp.ClientConnectorCertificateError):
            question = f"does the certificate authority in {source} match this server?"
        message = f"no answer from {self.server}: {cause}; {question}"
        return Unavailable(request.method, request.path, 0, type(error).__name__, message)


def _cause_of(error: Exception) -> str:
    """Return the operating system's words for a connection that failed; aiohttp's repeat the address."""
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        number = error.os_error.errno
        # Names that cannot be resolved have negative numbers, and words of their own.
        return os.strerror(number) if number is not None and number > 0 else error.os_error.strerror or str(error)
    return str(error)


async def split_lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield each line without its newline, and last the rest without a newline, if there is one.

    Each line is joined once, so the cost is linear in its length.
    """
    pieces: list[bytes] = []
    length = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        length += len(first)
        if length > MAX_LINE_BYTES:
            raise LineTooLong(f"a line of the response is longer than {MAX_LINE_BYTES} bytes")
        if not others:
            continue
        yield b"".join(pieces)
        *whole, rest = others
        for line in whole:
            yield line
        pieces, length = [rest], len(rest)
    if length:
        yield b"".join(pieces)


def _proxy(credentials: Credentials) -> dict[str, Any]:
    """Return the options for the proxy. Its password is in none of the addresses that errors quote."""
    address = proxy_for(credentials)
    if address is None:
        return {}
    url = URL(address)
    if not url.user and not url.password:
        return {"proxy": url}
    login = aiohttp.encode_basic_auth(url.user or "", url.password or "")
    return {"proxy": url.with_user(None), "proxy_headers": {"Proxy-Authorization": login}}
