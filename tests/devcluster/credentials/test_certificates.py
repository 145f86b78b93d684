import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from devcluster.credentials.certificates import Authority, KeyPair, service_account_key

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, NOW)


def test_a_client_certificate_names_user_and_groups(authority: Authority) -> None:
    subject = load(authority.client("system:kube-scheduler", ["system:masters"]).certificate).subject
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["system:kube-scheduler"]
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:masters"]


@pytest.mark.parametrize("name", ["localhost", "kubernetes.default.svc"])
def test_a_serving_certificate_is_trusted_under_its_names(name: str, authority: Authority) -> None:
    verify_server(authority.certificate, authority.serving("serving"), x509.DNSName(name), NOW)


def test_a_serving_certificate_is_not_trusted_under_another_name(authority: Authority) -> None:
    with pytest.raises(VerificationError):
        verify_server(authority.certificate, authority.serving("serving"), x509.DNSName("example.com"), NOW)


def test_another_clusters_authority_is_not_trusted(authority: Authority, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    foreign = Authority(other, NOW).serving("serving")
    with pytest.raises(VerificationError):
        verify_server(authority.certificate, foreign, x509.DNSName("localhost"), NOW)


@pytest.mark.parametrize("moment", [NOW - timedelta(minutes=30), NOW + timedelta(days=364)])
def test_certificates_hold_while_a_cluster_lives(moment: datetime, authority: Authority) -> None:
    verify_server(authority.certificate, authority.serving("serving"), x509.DNSName("localhost"), moment)


def test_private_keys_are_for_the_owner_only(authority: Authority, tmp_path: Path) -> None:
    for key in (authority.client("admin").key, authority.serving("serving").key, service_account_key(tmp_path)):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def verify_server(authority: Path, pair: KeyPair, name: x509.DNSName, moment: datetime) -> None:
    policy = PolicyBuilder().store(Store([load(authority)])).time(moment)
    policy.build_server_verifier(name).verify(load(pair.certificate), [])
