"""Where files come from: checksums, and a statement of provenance in the form of SLSA, signed if there is a key."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from release.errors import ReleaseError
from release.source import Source

SUMS: Final = "SHA256SUMS"
STATEMENT: Final = "provenance.intoto.json"
_PAYLOAD: Final = "application/vnd.in-toto+json"
"""The type of what is signed (in-toto attestation framework, envelope)."""


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sums(files: Sequence[Path]) -> str:
    """Return what `sha256sum --check` reads."""
    return "".join(f"{digest(path)}  {path.name}\n" for path in sorted(files, key=lambda path: path.name))


def statement(source: Source, files: Sequence[Path], parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return the statement (in-toto Statement v1, SLSA provenance v1): which files, from which commit, made how.

    It says nothing of the builder that who signs it does not vouch for: without a hosted builder that is level 1.
    """
    lock = source.directory / "image" / "runtime.lock"
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": digest(path)}} for path in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{source.origin}/docs/releasing.md",
                "externalParameters": {"source": source.origin, **parameters},
                "resolvedDependencies": [
                    {"uri": f"git+{source.origin}", "digest": {"gitCommit": source.revision}},
                    {"name": "image/runtime.lock", "digest": {"sha256": digest(lock)}},
                ],
            },
            "runDetails": {"builder": {"id": f"{source.origin}/docs/releasing.md#by-hand"}},
        },
    }


class Signer:
    """Signs with an ECDSA key on P-256, which cosign and openssl verify. Raises ReleaseError for another one."""

    def __init__(self, key: Path) -> None:
        try:
            loaded = load_pem_private_key(key.read_bytes(), password=None)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise ReleaseError(
                f"signing key {key}: expected an unencrypted private key in PEM form: {error}"
            ) from error
        if not isinstance(loaded, EllipticCurvePrivateKey) or loaded.curve.name != "secp256r1":
            raise ReleaseError(f"signing key {key}: expected an ECDSA key on P-256")
        self._key = loaded

    def signature(self, content: bytes) -> str:
        """Return the signature over SHA-256 in base64, as `cosign verify-blob --signature` reads it."""
        return base64.b64encode(self._key.sign(content, ECDSA(hashes.SHA256()))).decode()

    def public_key(self) -> str:
        public = self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return public.decode()

    def envelope(self, content: bytes) -> str:
        """Return the statement in an envelope (DSSE v1), which signs its type as well."""
        signed = b"DSSEv1 %d %b %d %b" % (len(_PAYLOAD), _PAYLOAD.encode(), len(content), content)
        document = {
            "payloadType": _PAYLOAD,
            "payload": base64.b64encode(content).decode(),
            "signatures": [{"sig": self.signature(signed)}],
        }
        return json.dumps(document) + "\n"
