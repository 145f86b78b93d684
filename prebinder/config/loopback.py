"""Which hosts are this machine only."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether nobody but processes of this machine can connect. An empty host, which is every address, is not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_reachable(host: str, port: int) -> None:
    """Raise ValueError, with a sentence for the user, for a control port that others could connect to."""
    if not is_loopback(host):
        raise ValueError(
            f'the control port cannot listen on "{host}:{port}", because its clients decide where pods run: '
            "expected a loopback address such as 127.0.0.1:10270, or 0 to disable it"
        )
