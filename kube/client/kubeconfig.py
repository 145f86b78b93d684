"""Credentials from kubeconfig files, with all their options.

The official client reads the files; this module rejects insecure ones and turns every failure into one sentence for the
user.
"""

import asyncio
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from os import pathsep
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

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

_ENTRY: Final = re.compile(r"[/ ]?\{.*\}", re.DOTALL)
"""An entry of a file, as the official loader quotes it."""

_HEADER_CHARACTERS: Final = "!#$&'*+-.^_`|~"
"""May stand in the name of a header beside letters and digits."""

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
            raise KubeconfigError(_problem(error)) from error

    def invalidate(self) -> None:
        """Make `renew` run an exec plugin again before the credential that it gave expires."""
        self._loader.__dict__.pop("exec_plugin_expiry", None)

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
    if context is None and len(_files(paths)) > 1:  # of a single file the loader reads it, which may take a second
        context = _current_context(paths)
    try:
        loader = await asyncio.wait_for(
            load_kube_config(  # type: ignore[no-untyped-call]
                config_file=_with_content(paths),
                context=context,
                client_configuration=configuration,
                persist_config=False,
            ),
            EXEC_SECONDS,
        )
    except _BROKEN as error:
        raise KubeconfigError(
            f"cannot use {source}: {_unknown_user(paths, context) or _problem(error)}; compare with: "
            f"KUBECONFIG={paths} kubectl config get-contexts"
        ) from error
    server = _api_server(configuration)
    if server.address.startswith("https") and not configuration.api_key and not server.certificate:
        raise KubeconfigError(f"{source} has no credentials for {server.address}: {_missing(loader._user)}")
    _reject_insecure(configuration, server, source)

    namespace = str(loader.current_context["context"].get("namespace") or "default")
    server = replace(server, called=_called(loader.current_context))
    return Credentials(
        server, KubeconfigUser(loader, configuration), source, clock, namespace, _impersonation(loader._user)
    )


def _missing(user: Any) -> str:
    """Return why a user has neither a token nor a client certificate."""
    plugin = str(user["exec"]["command"]) if user and "exec" in user else ""
    if not plugin:
        return "the user has no token and no client certificate"
    if shutil.which(plugin) is None:
        return f'the exec plugin "{plugin}" is not there; install it, or name its directory in $PATH'
    return f'the exec plugin "{plugin}" failed (see the log line above)'


def _called(context: Any) -> str:
    """Return how people know the cluster: by the name of the context, and the cluster's if it is another."""
    name, cluster = str(context["name"]), str(context["context"].get("cluster") or "")
    return f"{name} (cluster {cluster})" if cluster not in {"", name} else name


def _impersonation(user: Any) -> tuple[tuple[str, str], ...]:
    """Return the headers of a user's `as`, `as-uid`, `as-groups` and `as-user-extra` (client-go
    transport/round_trippers.go). The official loader ignores these.
    """
    fields: dict[str, Any] = user.value if user else {}
    single = [(header, fields.get(key)) for header, key in (("User", "as"), ("Uid", "as-uid"))]
    groups = [("Group", group) for group in fields.get("as-groups") or ()]
    extra = [
        (f"Extra-{quote(key, safe=_HEADER_CHARACTERS)}", value)
        for key, values in (fields.get("as-user-extra") or {}).items()
        for value in values
    ]
    return tuple((f"Impersonate-{header}", str(value)) for header, value in (*single, *groups, *extra) if value)


def _api_server(configuration: Any) -> ApiServer:
    return ApiServer(
        str(configuration.host).rstrip("/"),
        str(configuration.ssl_ca_cert or ""),
        str(configuration.tls_server_name or ""),
        str(configuration.proxy or ""),
        str(configuration.cert_file or ""),
        str(configuration.key_file or ""),
    )


def _files(paths: str) -> list[Path]:
    return [Path(path).expanduser() for path in paths.split(pathsep) if path]


def _current_context(paths: str) -> str | None:
    """Return the current context that counts for kubectl: that of the first file that has one (Load in client-go
    tools/clientcmd/loader.go). The official loader takes that of the last.
    """
    with suppress(*_BROKEN):
        return next((each["current-context"] for each in _contents(paths) if each.get("current-context")), None)
    return None


def _with_content(paths: str) -> str:
    """Return the paths without files that are empty, which kubectl ignores if there are others."""
    return pathsep.join(str(file) for file in _files(paths) if not _is_empty(file)) or paths


def _is_empty(file: Path) -> bool:
    return file.is_file() and not file.read_bytes().strip()


def _contents(paths: str) -> Iterator[dict[str, Any]]:
    """Yield the content of each file. Raises one of _BROKEN for a file that is no kubeconfig."""
    for file in _files(paths):
        if file.is_file():
            yield yaml.safe_load(file.read_text(encoding="utf-8")) or {}


def _unknown_user(paths: str, context: str | None) -> str:
    """Return that the context names a user that no file has, which the loader does not tell; empty if it does not."""
    merged: dict[str, Any] = {"contexts": [], "users": []}
    context = context or _current_context(paths)
    try:
        for content in _contents(paths):
            for key in merged:
                merged[key] += content.get(key) or []
        user = next(each["context"]["user"] for each in merged["contexts"] if each["name"] == context)
        is_known = any(each["name"] == user for each in merged["users"])
    except (*_BROKEN, StopIteration):
        return ""
    return "" if is_known else f'context "{context}" names user "{user}", which is not among its users'


def _problem(error: Exception) -> str:
    """Return the problem in one line; the loader's own errors about files of another format are not helpful."""
    if isinstance(error, TypeError | AttributeError | KeyError):
        return "not a kubeconfig; expected clusters, contexts, users and current-context"
    if isinstance(error, TimeoutError):
        return f"the exec plugin did not answer within {EXEC_SECONDS:g} s"
    unknown = _NO_CONTEXT.search(str(error))
    if unknown is not None:
        return f'there is no context "{unknown[1]}"'
    # The loader quotes whole entries, which may hold secrets in the environment of an exec plugin.
    return " ".join(_ENTRY.sub("", str(error)).split()) or type(error).__name__


def _reject_insecure(configuration: Any, server: ApiServer, source: str) -> None:
    address = urlsplit(server.address)
    if not configuration.verify_ssl:
        raise KubeconfigError(
            f"{source} sets insecure-skip-tls-verify for {server.address}: rejected, because anyone on the network "
            "could read the token and impersonate the server; set certificate-authority instead"
        )
    if "@" in address.netloc:
        raise KubeconfigError(
            f"{source} has a user or password in the server's address: rejected, because API servers take neither, and "
            "addresses are logged; configure the user's token, certificate or exec plugin instead"
        )
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise KubeconfigError(f"{source} has no usable server address: {server.address!r}; expected https://HOST:PORT")
    if address.scheme == "http" and (address.hostname not in LOOPBACK or server.proxy):
        raise KubeconfigError(
            f"{source} reaches {server.address} without TLS: rejected; plain HTTP is allowed on loopback only, and "
            "through no proxy"
        )
