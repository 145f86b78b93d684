"""Certificates without the extensions that Python 3.13 requires of them, and Go does not: no key usage, no key ids."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_plain_certificates(directory: Path) -> Path:
    """Write a CA, a server certificate for 127.0.0.1 and a client certificate; return the directory.

    The CA is one below `root`.
    """
    root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    above, issuer = _name("root"), _name("ca")
    _write_pair(directory, "root", root, _certificate("root", root, root, above, ca=True))
    _write_pair(directory, "ca", key, _certificate("ca", key, root, above, ca=True))
    for name in ("server", "client"):
        own = ec.generate_private_key(ec.SECP256R1())
        _write_pair(directory, name, own, _certificate(name, own, key, issuer, ca=False))
    return directory


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _certificate(
    name: str, own: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey, issuer: x509.Name, *, ca: bool
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(signer, hashes.SHA256())
    )


def _write_pair(directory: Path, name: str, key: ec.EllipticCurvePrivateKey, cert: x509.Certificate) -> None:
    (directory / f"{name}.crt").write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    (directory / f"{name}.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
