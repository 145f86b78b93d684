"""Where a driver listens: `NAME=unix:///path`, refused early if it cannot work or would not be safe."""

from dataclasses import dataclass

FORM = "NAME=unix:///absolute/path.sock"
LONGEST_SOCKET_PATH = 107
"""Bytes the kernel keeps for the path of a unix socket, less the closing zero: unix(7)."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A driver's name, as in `spec.csi.driver` of its volumes, and the path of its socket."""

    driver: str
    path: str

    def __str__(self) -> str:
        return f"unix://{self.path}"


def parse_endpoint(text: str) -> Endpoint:
    """Return the endpoint that a user wrote, or raise ValueError with a sentence for that user."""
    driver, separator, address = text.partition("=")
    if not separator or not driver:
        raise ValueError(f"CSI endpoint {text!r}: expected {FORM}")
    scheme, separator, path = address.partition("://")
    if separator and scheme != "unix":
        raise ValueError(
            f"CSI endpoint {text!r}: {scheme} is refused, because a CSI driver asks nobody who they are and would "
            f"delete volumes for anyone who can connect; expected {FORM}"
        )
    if not separator or not path.startswith("/"):
        raise ValueError(f"CSI endpoint {text!r}: the address is not a unix socket; expected {FORM}")
    if len(path.encode()) > LONGEST_SOCKET_PATH:
        raise ValueError(
            f"CSI endpoint {text!r}: the path has {len(path.encode())} bytes; "
            f"unix sockets allow at most {LONGEST_SOCKET_PATH}"
        )
    return Endpoint(driver, path)
