import stat
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.credentials.certificates import KeyPair
from devcluster.credentials.kubeconfig import write_for_certificate, write_for_token

SERVER = "https://127.0.0.1:6443"


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    path = tmp_path / "ca.crt"
    path.write_text("authority", encoding="utf-8")
    return path


def test_a_certificate_is_embedded(authority: Path, tmp_path: Path) -> None:
    client = KeyPair(tmp_path / "me.crt", tmp_path / "me.key")
    client.certificate.write_text("certificate", encoding="utf-8")
    client.key.write_text("key", encoding="utf-8")
    user = read(write_for_certificate(tmp_path / "kubeconfig", SERVER, authority, client))["users"][0]["user"]
    assert b64decode(user["client-certificate-data"]) == b"certificate"
    assert b64decode(user["client-key-data"]) == b"key"


def test_a_token_is_written_for_the_owner_only(authority: Path, tmp_path: Path) -> None:
    path = write_for_token(tmp_path / "kubeconfig", SERVER, authority, "secret")
    assert read(path)["users"][0]["user"] == {"token": "secret"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_current_context_leads_to_the_server_and_its_authority(authority: Path, tmp_path: Path) -> None:
    document = read(write_for_token(tmp_path / "kubeconfig", SERVER, authority, "secret"))
    contexts = {each["name"]: each["context"] for each in document["contexts"]}
    clusters = {each["name"]: each["cluster"] for each in document["clusters"]}
    cluster = clusters[contexts[document["current-context"]]["cluster"]]
    assert cluster["server"] == SERVER
    assert b64decode(cluster["certificate-authority-data"]) == b"authority"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))
