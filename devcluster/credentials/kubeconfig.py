"""Kubeconfig files: how a client finds, trusts and authenticates to the API server."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from devcluster.credentials.certificates import KeyPair


def write_for_certificate(path: Path, server: str, authority: Path, client: KeyPair) -> Path:
    """Write a kubeconfig with a client certificate; everything is embedded, so the file can be copied."""
    return _write(
        path,
        server,
        authority,
        {
            "client-certificate-data": _embedded(client.certificate),
            "client-key-data": _embedded(client.key),
        },
    )


def write_for_token(path: Path, server: str, authority: Path, token: str) -> Path:
    """Write a kubeconfig with a bearer token."""
    return _write(path, server, authority, {"token": token})


def _write(path: Path, server: str, authority: Path, user: dict[str, str]) -> Path:
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "devcluster",
                "cluster": {"server": server, "certificate-authority-data": _embedded(authority)},
            }
        ],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "devcluster", "context": {"cluster": "devcluster", "user": "user"}}],
        "current-context": "devcluster",
    }
    path.touch(mode=0o600)
    # JSON is valid YAML, and that is enough for a kubeconfig.
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return path


def _embedded(path: Path) -> str:
    return b64encode(path.read_bytes()).decode("ascii")
