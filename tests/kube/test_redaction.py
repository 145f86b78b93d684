import pytest

from kube.redaction import redacted

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("proxy http://user:p4ss@proxy:3128 rejected", "proxy http://***@proxy:3128 rejected"),
        ("http://user:p4@ss@proxy:3128/x", "http://***@proxy:3128/x"),
        ("https://p4ss@host", "https://***@host"),
        ("url='http://a:p4ss@b', http://c:p4ss@d", "url='http://***@b', http://***@d"),
        ("Authorization: Bearer p4ssp4ss.x", "Authorization: Bearer ***"),
        ("Proxy-Authorization: Basic dXNlcjpwNHNz", "Proxy-Authorization: Basic ***"),
        (f"got {TOKEN} here", "got *** here"),
        ("b'login failed, token=p4ss, retry'", "b'login failed, token=***, retry'"),
        ("https://idp.example/?client_secret=p4ss&x=1", "https://idp.example/?client_secret=***&x=1"),
        ('{"status": {"token": "p4 ss"}}', '{"status": {"token": "***"}}'),
        (r"{\"id-token\": \"p4ss\"}", r"{\"id-token\": \"***\"}"),
        ("password: p4ssp4ssp4ss", "password: ***"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIp4ss\n-----END RSA PRIVATE KEY-----\nend", "***\nend"),
        ("-----BEGIN PRIVATE KEY-----\nMIIp4ss", "***"),
    ],
)
def test_credentials_are_hidden(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "no answer from https://10.0.0.1:6443: Cannot connect to host 10.0.0.1:6443 ssl:default [Connection refused]",
        "the user has no token and no client certificate",
        "cannot read the token: No such file or directory",
        "is --token-file its --control-token-file=/var/run/token?",
        "basic authentication, bearer credentials",
        'GET /api/v1/namespaces/default/secrets/x: 403 Forbidden: secrets "x" is forbidden',
        "pod web/data@node",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert redacted(text) == text
