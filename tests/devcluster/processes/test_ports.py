import socket
import subprocess
import sys

from devcluster.processes import ports
from devcluster.processes.ports import LOOPBACK, free_ports, is_free

ASK = "from devcluster.processes.ports import free_ports; print(*free_ports(1), flush=True); input()"


def test_ports_are_different_and_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(is_free(port) for port in ports)


def test_a_port_with_a_listener_is_not_free() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        assert not is_free(server.getsockname()[1])


def test_a_port_is_given_once_until_the_process_that_has_it_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        assert is_free(port)
        assert not ports._hold(port)
        other.communicate(b"\n")
    assert ports._hold(port)
    assert not ports._hold(port)
