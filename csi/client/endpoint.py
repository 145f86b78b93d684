"""Where a driver listens: `NAME=unix:///path`, or `NAME=tcp://HOST:PORT`, which requires mutual TLS.

Endpoints that cannot work or are not safe are rejected early. A CSI driver does not authenticate its clients: any
client of its socket may delete volumes, and on a network that is any host, unless TLS authenticates both sides.
"""

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

FORM = "NAME=unix:///absolute/path.sock"
REMOTE_FORM = "NAME=tcp://HOST:PORT, with ?serverName=NAME if the driver's certificate names another host"
MAX_SOCKET_PATH_BYTES = 107
"""The kernel's limit for the path of a unix socket, in bytes, without the closing zero: unix(7)."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files: the authority of the driver's certificate, and our own certificate with its key."""

    authority: str
    certificate: str
    key: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A driver's name, as in `spec.csi.driver` of its volumes, and the path of its socket.

    For tcp the path is empty, `address` is HOST:PORT, `server_name` is the name that its certificate must carry, and
    without `tls` nothing is sent to it.
    """

    driver: str
    path: str
    address: str = ""
    server_name: str = ""
    tls: TlsFiles | None = None

    @property
    def remote(self) -> bool:
        return bool(self.address)

    def __str__(self) -> str:
        if not self.remote:
            return f"unix://{self.path}"
        implied = self.address.rpartition(":")[0].strip("[]") == self.server_name
        return f"tcp://{self.address}" + ("" if implied else f"?serverName={self.server_name}")


def parse_endpoint(text: str) -> Endpoint:
    """Parse an endpoint from user input, or raise ValueError with a message for the user."""
    driver, separator, address = text.partition("=")
    if not separator or not driver:
        raise ValueError(f"CSI endpoint {text!r}: expected {FORM}")
    scheme, separator, path = address.partition("://")
    if scheme == "tcp" and separator:
        return _remote(text, driver, address)
    if separator and scheme != "unix":
        raise ValueError(
            f"CSI endpoint {text!r}: {scheme} is rejected, because a CSI driver does not authenticate its clients and "
            f"would delete volumes for anyone who can connect; expected {FORM}, or {REMOTE_FORM}"
        )
    if not separator or not path.startswith("/"):
        raise ValueError(f"CSI endpoint {text!r}: the address is not a unix socket; expected {FORM}")
    if len(path.encode()) > MAX_SOCKET_PATH_BYTES:
        raise ValueError(
            f"CSI endpoint {text!r}: the path has {len(path.encode())} bytes; "
            f"unix sockets allow at most {MAX_SOCKET_PATH_BYTES}"
        )
    return Endpoint(driver, path)


def reject_plain(endpoint: Endpoint) -> str | None:
    """Return why nothing may be sent to the endpoint, with the next step, or None if it may."""
    if not endpoint.remote or endpoint.tls is not None:
        return None
    return (
        f"{endpoint.driver}={endpoint}: tcp without TLS is rejected, because a CSI driver does not authenticate its "
        "clients and would delete volumes for anyone who can connect; put the driver behind a proxy that requires "
        "client certificates and set --csi-tls-ca, --csi-tls-cert and --csi-tls-key, or use the driver's unix socket"
    )


def _remote(text: str, driver: str, address: str) -> Endpoint:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:  # the port is not a number
        host, port = None, None
    named = dict(parse_qsl(parts.query, keep_blank_values=True)) if host else {}
    server_name = named.pop("serverName", host) if host else None
    if not host or not port or not server_name or named or parts.path or parts.fragment or parts.username:
        raise ValueError(f"CSI endpoint {text!r}: expected {REMOTE_FORM}")
    return Endpoint(driver, "", f"[{host}]:{port}" if ":" in host else f"{host}:{port}", server_name)
