"""Requests with the caller's own token: where the API server is, without an identity of our own."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.aio.client import Configuration

from kube.client.connect import KubernetesTransport
from kube.client.kubeconfig import SERVICE_ACCOUNT, Credentials, load_credentials
from kube.clock import Clock
from kube.errors import KubeconfigError


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Where an API server is, and how its certificate is verified. Empty texts are what is not stated."""

    address: str
    certificate_authority: str
    server_name: str = ""
    proxy: str = ""

    def as_caller(self, token: str, clock: Clock) -> KubernetesTransport:
        """Return a transport whose requests carry this token and no other credentials."""
        configuration: Any = Configuration(client_session_kwargs={"trust_env": False})
        configuration.host = self.address
        configuration.ssl_ca_cert = self.certificate_authority or None
        configuration.tls_server_name = self.server_name or None
        configuration.proxy = self.proxy or None
        configuration.api_key = {"BearerToken": f"Bearer {token}"}

        async def nothing_to_renew() -> None: ...

        return KubernetesTransport(
            Credentials(configuration, nothing_to_renew, "the caller's token", clock, lambda _: True)
        )


async def find_api_server(
    kubeconfig: str | None,
    context: str | None,
    clock: Clock,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> ApiServer:
    """Return the API server of the configuration, as `load_credentials` finds it. Raises KubeconfigError.

    In a pod only `ca.crt` has to be mounted: a service account's token is neither needed nor read.
    """
    if kubeconfig is None and not environ.get("KUBECONFIG") and "KUBERNETES_SERVICE_HOST" in environ:
        host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
        authority = service_account / "ca.crt"
        if not authority.is_file():
            raise KubeconfigError(f"{authority} does not exist: mount the ConfigMap kube-root-ca.crt there")
        return ApiServer(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", str(authority))
    configuration = (await load_credentials(kubeconfig, context, clock)).configuration
    return ApiServer(
        str(configuration.host),
        str(configuration.ssl_ca_cert or ""),
        str(configuration.tls_server_name or ""),
        str(configuration.proxy or ""),
    )
