"""Where the cluster is and which identity to use: kubeconfig files with all their options, and a pod's service account.

The official client reads both kinds of configuration; this module decides which one to use, rejects insecure ones,
keeps credentials up to date, and turns every failure into one sentence for the user.
"""

import asyncio
import logging
import os
import re
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_kube_config
from kubernetes.aio.config.incluster_config import InClusterConfigLoader

from kube.clock import Clock
from kube.errors import KubeconfigError
from kube.redaction import redacted

logger = logging.getLogger(__name__)

REFRESH_SECONDS: Final = 60.0
"""How long credentials are used before the token file is read, or the exec plugin run, again."""

EXEC_SECONDS: Final = 60.0
"""How long an exec plugin may take; some of them wait for user input."""

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet writes, and rotates, a pod's token."""

_NO_CONTEXT: Final = re.compile(r"Expected object with name (.*) in .*/contexts list")
"""The official loader's message about a context that does not exist."""

_LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}

_BROKEN: Final = (ConfigException, yaml.YAMLError, OSError, TypeError, AttributeError, KeyError, ValueError)
"""What the official loaders raise for files that are missing, malformed or incomplete."""


class Credentials:
    """The address of an API server and an identity that is kept up to date.

    `source` names their origin, for messages. `still_valid` tells whether requests may use the present credentials
    while new ones are being obtained. `namespace` is that of the context.
    """

    def __init__(
        self,
        configuration: Any,
        reload: Callable[[], Awaitable[None]],
        source: str,
        clock: Clock,
        still_valid: Callable[[datetime], bool] = lambda _: False,
        namespace: str = "default",
    ) -> None:
        self.namespace = namespace
        self.configuration = configuration
        self.source = source
        self._reload = reload
        self._clock = clock
        self._still_valid = still_valid
        self._refreshed_at = clock.monotonic()
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def server(self) -> str:
        return str(self.configuration.host).rstrip("/")

    async def authorization(self) -> str | None:
        """Return the Authorization header, or None for a client certificate alone.

        If the last refresh is a minute old, the token is read or obtained again: before returning, or in the background
        while the present one is still valid. Raises KubeconfigError if that fails and no valid one is left.
        """
        try:
            if self._clock.monotonic() - self._refreshed_at >= REFRESH_SECONDS:
                refreshing = self._refresh()
                if not self._still_valid(self._clock.now()):
                    await asyncio.shield(refreshing)
            token = (await self.configuration.auth_settings()).get("BearerToken")
        except _BROKEN as error:
            raise KubeconfigError(f"cannot refresh the credentials of {self.source}: {error}") from error
        return str(token["value"]).strip() if token and token["value"] else None

    async def close(self) -> None:
        """Cancel a refresh that is in progress."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing})

    def _refresh(self) -> "asyncio.Task[None]":
        """Return the refresh in progress, or start one."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._renew())
            self._refreshing.add_done_callback(self._log_failure)
        return self._refreshing

    async def _renew(self) -> None:
        await asyncio.wait_for(self._reload(), EXEC_SECONDS)
        self._refreshed_at = self._clock.monotonic()

    def _log_failure(self, refreshing: "asyncio.Task[None]") -> None:
        """Log why a refresh in the background failed; the next request retries it."""
        error = None if refreshing.cancelled() else refreshing.exception()
        if error is not None:
            message = redacted(str(error)) or type(error).__name__
            logger.warning("Credential refresh failed", extra={"source": self.source, "error": message})


async def load_credentials(
    kubeconfig: str | None,
    context: str | None,
    clock: Clock,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Credentials:
    """Find and read the configuration: `kubeconfig`, else $KUBECONFIG, else ~/.kube/config, else the pod's."""
    configuration = Configuration(client_session_kwargs={"trust_env": False})
    paths = _paths(kubeconfig, environ)
    if paths is not None:
        credentials = await _from_files(paths, context, configuration, clock)
    elif "KUBERNETES_SERVICE_HOST" in environ:
        credentials = await _from_pod(configuration, clock, environ, service_account)
    else:
        raise KubeconfigError(
            "no cluster configured: $KUBECONFIG is not set, ~/.kube/config does not exist, and this is not a pod; "
            "pass --kubeconfig FILE"
        )
    _refuse_insecure(credentials)
    return credentials


async def _from_pod(configuration: Any, clock: Clock, environ: Mapping[str, str], service_account: Path) -> Credentials:
    loader: Any = InClusterConfigLoader(  # type: ignore[no-untyped-call]
        token_filename=str(service_account / "token"),
        cert_filename=str(service_account / "ca.crt"),
        try_refresh_token=False,  # its own refresh uses the system clock
        environ=environ,
    )

    async def reload() -> None:
        loader.load_and_set(configuration)

    try:
        await reload()
    except _BROKEN as error:
        raise KubeconfigError(f"cannot use the pod's service account in {service_account}: {error}") from error
    return Credentials(
        configuration,
        reload,
        "the pod's service account",
        clock,
        namespace=_namespace_in(service_account / "namespace"),
    )


def _namespace_in(file: Path) -> str:
    """Return the pod's namespace, which the kubelet writes beside its token."""
    try:
        return file.read_text(encoding="utf-8").strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


def _paths(kubeconfig: str | None, environ: Mapping[str, str]) -> str | None:
    chosen = kubeconfig or environ.get("KUBECONFIG")
    if chosen:
        if not any(Path(path).expanduser().is_file() for path in chosen.split(os.pathsep) if path):
            named = "--kubeconfig" if kubeconfig else "$KUBECONFIG"
            raise KubeconfigError(f"kubeconfig {chosen} (from {named}) does not exist")
        return chosen
    default = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    return str(default) if default.is_file() else None


async def _from_files(paths: str, context: str | None, configuration: Any, clock: Clock) -> Credentials:
    try:
        loader = await asyncio.wait_for(
            load_kube_config(  # type: ignore[no-untyped-call]
                config_file=paths, context=context, client_configuration=configuration, persist_config=False
            ),
            EXEC_SECONDS,
        )
    except _BROKEN as error:
        raise KubeconfigError(
            f"cannot use kubeconfig {paths}: {_unknown_user(paths, context) or _problem(error)}; compare with: "
            f"kubectl --kubeconfig {paths} config get-contexts"
        ) from error
    credentials = Credentials(
        configuration,
        lambda: loader.load_and_set(configuration),
        f"kubeconfig {paths}",
        clock,
        lambda now: is_exec_credential_valid(loader, now),
        namespace=str(loader.current_context["context"].get("namespace") or "default"),
    )
    if credentials.server.startswith("https") and not configuration.api_key and not configuration.cert_file:
        raise KubeconfigError(
            f"kubeconfig {paths} has no credentials for {credentials.server}: the user has no token and no client "
            "certificate, or the exec plugin failed (see the log line above)"
        )
    return credentials


def is_exec_credential_valid(loader: Any, now: datetime) -> bool:
    """Whether the loader has a credential of an exec plugin that has not expired.

    False for credentials from files: reading them is fast, and a file does not state its expiry.
    """
    if not loader._user or "exec" not in loader._user:
        return False
    expiry: datetime | None = getattr(loader, "exec_plugin_expiry", None)
    return expiry is None or now < expiry


def _unknown_user(paths: str, context: str | None) -> str:
    """Return that the context names a user that no file has, which the loader does not tell; empty if it does not."""
    merged: dict[str, Any] = {"contexts": [], "users": []}
    try:
        for path in (Path(path).expanduser() for path in paths.split(os.pathsep) if path):
            content = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
            for key in merged:
                merged[key] += (content or {}).get(key) or []
            context = context or (content or {}).get("current-context")
        user = next(each["context"]["user"] for each in merged["contexts"] if each["name"] == context)
        is_known = any(each["name"] == user for each in merged["users"])
    except (*_BROKEN, StopIteration):
        return ""
    return "" if is_known else f'context "{context}" names user "{user}", which is not among its users'


def _problem(error: Exception) -> str:
    """Return the problem in one line; the loader's own errors about files of another format are not helpful."""
    if isinstance(error, TypeError | AttributeError | KeyError):
        return "not a kubeconfig; expected clusters, contexts, users and current-context"
    unknown = _NO_CONTEXT.search(str(error))
    if unknown is not None:
        return f'there is no context "{unknown[1]}"'
    return " ".join(str(error).split()) or type(error).__name__


def _refuse_insecure(credentials: Credentials) -> None:
    address = urlsplit(credentials.server)
    if not credentials.configuration.verify_ssl:
        raise KubeconfigError(
            f"{credentials.source} sets insecure-skip-tls-verify for {credentials.server}: refused, because anyone "
            "on the network could read the token and impersonate the server; set certificate-authority instead"
        )
    if "@" in address.netloc:
        raise KubeconfigError(
            f"{credentials.source} has a user or password in the server's address: refused, because API servers take "
            "neither, and addresses are logged; configure the user's token, certificate or exec plugin instead"
        )
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise KubeconfigError(
            f"{credentials.source} has no usable server address: {credentials.server!r}; expected https://HOST:PORT"
        )
    if address.scheme == "http" and address.hostname not in _LOOPBACK:
        raise KubeconfigError(
            f"{credentials.source} reaches {credentials.server} without TLS: refused; plain HTTP is allowed on "
            "loopback only"
        )


def proxy_for(credentials: Credentials) -> str | None:
    """Return the proxy's address with its user and password, or None for a direct connection.

    It is the kubeconfig's proxy-url, else HTTPS_PROXY and the like unless NO_PROXY names the host. An address without a
    scheme counts as http, as in client-go. Raises KubeconfigError for an invalid address.
    """
    configuration = credentials.configuration
    address, origin = urlsplit(str(configuration.host)), f"proxy-url of {credentials.source}"
    proxy = str(configuration.proxy or "")
    if not proxy:
        if address.hostname in _LOOPBACK or urllib.request.proxy_bypass(address.netloc):
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
