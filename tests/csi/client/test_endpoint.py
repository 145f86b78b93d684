from dataclasses import replace

import pytest

from csi.client.endpoint import Endpoint, TlsFiles, parse_endpoint, reject_plain


def test_a_unix_socket_is_taken() -> None:
    endpoint = parse_endpoint("ebs.csi.aws.com=unix:///run/csi/a=b.sock")
    assert endpoint == Endpoint("ebs.csi.aws.com", "/run/csi/a=b.sock")
    assert str(endpoint) == "unix:///run/csi/a=b.sock"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("unix:///run/csi.sock", "expected NAME=unix:///", id="no name"),
        pytest.param("=unix:///run/csi.sock", "expected NAME=unix:///", id="empty name"),
        pytest.param("a=/run/csi.sock", "not a unix socket", id="no scheme"),
        pytest.param("a=unix://run/csi.sock", "not a unix socket", id="relative path"),
        pytest.param("a=unix://", "not a unix socket", id="no path"),
        pytest.param("a=tcp://10.0.0.1", "expected NAME=tcp://HOST:PORT", id="tcp without port"),
        pytest.param("a=tcp://:9000", "expected NAME=tcp://HOST:PORT", id="tcp without host"),
        pytest.param("a=tcp://h:port", "expected NAME=tcp://HOST:PORT", id="port that is no number"),
        pytest.param("a=tcp://h:1/path", "expected NAME=tcp://HOST:PORT", id="tcp with a path"),
        pytest.param("a=tcp://u@h:1", "expected NAME=tcp://HOST:PORT", id="tcp with a user"),
        pytest.param("a=tcp://h:1?serverName=", "expected NAME=tcp://HOST:PORT", id="empty server name"),
        pytest.param("a=tcp://h:1?servername=x", "expected NAME=tcp://HOST:PORT", id="unknown parameter"),
        pytest.param("a=dns:///driver:9000", "dns is rejected", id="dns"),
        pytest.param(f"a=unix:///{'x' * 107}", "108 bytes", id="longer than the kernel takes"),
        pytest.param(f"a=unix:///{'ä' * 54}", "109 bytes", id="bytes count, not characters"),
    ],
)
def test_what_cannot_work_is_rejected(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_endpoint(text)


def test_the_longest_path_is_taken() -> None:
    assert len(parse_endpoint(f"a=unix:///{'x' * 106}").path) == 107


@pytest.mark.parametrize(
    ("address", "dialled", "server_name"),
    [
        ("tcp://driver.storage.svc:9000", "driver.storage.svc:9000", "driver.storage.svc"),
        ("tcp://10.0.0.1:9000?serverName=driver.storage.svc", "10.0.0.1:9000", "driver.storage.svc"),
        ("tcp://[fd00::1]:9000", "[fd00::1]:9000", "fd00::1"),
    ],
)
def test_a_tcp_address_says_which_name_the_certificate_must_have(address: str, dialled: str, server_name: str) -> None:
    endpoint = parse_endpoint(f"a={address}")
    assert endpoint == Endpoint("a", "", dialled, server_name)
    assert str(endpoint) == address


def test_nothing_is_sent_over_tcp_without_certificates() -> None:
    endpoint = parse_endpoint("a=tcp://h:1")
    assert "--csi-tls-ca, --csi-tls-cert and --csi-tls-key" in (reject_plain(endpoint) or "")
    assert reject_plain(replace(endpoint, tls=TlsFiles("ca", "crt", "key"))) is None
    assert reject_plain(Endpoint("a", "/a.sock")) is None
