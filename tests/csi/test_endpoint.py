import pytest

from csi.endpoint import Endpoint, parse_endpoint


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
        pytest.param("a=tcp://10.0.0.1:9000", "tcp is refused", id="tcp"),
        pytest.param("a=dns:///driver:9000", "dns is refused", id="dns"),
        pytest.param(f"a=unix:///{'x' * 107}", "108 bytes", id="longer than the kernel takes"),
        pytest.param(f"a=unix:///{'ä' * 54}", "109 bytes", id="bytes count, not characters"),
    ],
)
def test_what_cannot_work_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_endpoint(text)


def test_the_longest_path_is_taken() -> None:
    assert len(parse_endpoint(f"a=unix:///{'x' * 106}").path) == 107
