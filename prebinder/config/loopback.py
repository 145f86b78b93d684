"""Which hosts are only reachable from this machine."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine can connect. An empty host, which means every address, is not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def reject_reachable(host: str, port: int) -> None:
    """Raise ValueError, with a sentence for the user, for a control port that other machines could connect to."""
    if not is_loopback(host):
        raise ValueError(
            f'the control port cannot listen on "{host}:{port}", because its clients decide where pods run: '
            "expected a loopback address such as 127.0.0.1:10270, or 0 to disable it"
        )
