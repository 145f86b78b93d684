"""Credentials from kubeconfig files, with all their options.

The official client reads the files; this module rejects insecure ones and turns every failure into one sentence for the
user.
"""

import asyncio
import re
from datetime import datetime
from os import pathsep
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_kube_config

from kube.client.credentials import LOOPBACK, ApiServer, Credentials
from kube.clock import Clock
from kube.errors import KubeconfigError

EXEC_SECONDS: Final = 60.0
"""How long an exec plugin may take; some of them wait for user input."""

_NO_CONTEXT: Final = re.compile(r"Expected object with name (.*) in .*/contexts list")
"""The official loader's message about a context that does not exist."""

_BROKEN: Final = (ConfigException, yaml.YAMLError, OSError, TypeError, AttributeError, KeyError, ValueError)
"""What the official loader raises for files that are missing, malformed or incomplete."""


class KubeconfigUser:
    """The user of a context: what the official loader puts into the client's configuration."""

    def __init__(self, loader: Any, configuration: Any) -> None:
        self._loader = loader
        self._configuration = configuration

    @property
    def header(self) -> str | None:
        return str(self._configuration.api_key.get("BearerToken") or "").strip() or None

    async def renew(self) -> None:
        try:
            await asyncio.wait_for(self._loader.load_and_set(self._configuration), EXEC_SECONDS)
        except _BROKEN as error:
            raise KubeconfigError(str(error)) from error

    def is_valid(self, now: datetime) -> bool:
        """Whether there is a credential of an exec plugin that has not expired.

        False for credentials from files: reading them is fast, and a file does not state its expiry.
        """
        if not self._loader._user or "exec" not in self._loader._user:
            return False
        expiry: datetime | None = getattr(self._loader, "exec_plugin_expiry", None)
        return expiry is None or now < expiry


async def credentials_of(paths: str, context: str | None, clock: Clock) -> Credentials:
    """Return the credentials of a context, of the current one if None. `paths` are separated as in $KUBECONFIG.

    Raises KubeconfigError.
    """
    configuration: Any = Configuration(client_session_kwargs={"trust_env": False})
    source = f"kubeconfig {paths}"
    try:
        loader = await asyncio.wait_for(
            load_kube_config(  # type: ignore[no-untyped-call]
                config_file=paths, context=context, client_configuration=configuration, persist_config=False
            ),
            EXEC_SECONDS,
        )
    except _BROKEN as error:
        raise KubeconfigError(
            f"cannot use {source}: {_unknown_user(paths, context) or _problem(error)}; compare with: "
            f"kubectl --kubeconfig {paths} config get-contexts"
        ) from error
    server = _api_server(configuration)
    if server.address.startswith("https") and not configuration.api_key and not server.certificate:
        raise KubeconfigError(
            f"{source} has no credentials for {server.address}: the user has no token and no client certificate, or "
            "the exec plugin failed (see the log line above)"
        )
    _refuse_insecure(configuration, server, source)

    namespace = str(loader.current_context["context"].get("namespace") or "default")
    return Credentials(server, KubeconfigUser(loader, configuration), source, clock, namespace)


def _api_server(configuration: Any) -> ApiServer:
    return ApiServer(
        str(configuration.host).rstrip("/"),
        str(configuration.ssl_ca_cert or ""),
        str(configuration.tls_server_name or ""),
        str(configuration.proxy or ""),
        str(configuration.cert_file or ""),
        str(configuration.key_file or ""),
    )


def _unknown_user(paths: str, context: str | None) -> str:
    """Return that the context names a user that no file has, which the loader does not tell; empty if it does not."""
    merged: dict[str, Any] = {"contexts": [], "users": []}
    try:
        for path in (Path(path).expanduser() for path in paths.split(pathsep) if path):
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


def _refuse_insecure(configuration: Any, server: ApiServer, source: str) -> None:
    address = urlsplit(server.address)
    if not configuration.verify_ssl:
        raise KubeconfigError(
            f"{source} sets insecure-skip-tls-verify for {server.address}: refused, because anyone on the network "
            "could read the token and impersonate the server; set certificate-authority instead"
        )
    if "@" in address.netloc:
        raise KubeconfigError(
            f"{source} has a user or password in the server's address: refused, because API servers take neither, and "
            "addresses are logged; configure the user's token, certificate or exec plugin instead"
        )
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise KubeconfigError(f"{source} has no usable server address: {server.address!r}; expected https://HOST:PORT")
    if address.scheme == "http" and address.hostname not in LOOPBACK:
        raise KubeconfigError(
            f"{source} reaches {server.address} without TLS: refused; plain HTTP is allowed on loopback only"
        )
