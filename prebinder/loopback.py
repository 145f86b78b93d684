"""Which hosts are this machine only."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether nobody but processes of this machine can connect. An empty host, which is every address, is not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
