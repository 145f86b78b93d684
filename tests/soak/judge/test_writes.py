"""The audit log: who wrote which version."""

import json
from typing import Any

from soak.judge.writes import Authors, Parties, Party, read

CONTROLLER = Parties().controller


def event(**how: Any) -> str:
    answer = {"kind": "PersistentVolume", "metadata": {"name": "v1", "resourceVersion": str(how.get("version", 7))}}
    return json.dumps(
        {
            "stage": "ResponseComplete",
            "verb": how.get("verb", "patch"),
            "user": {
                "username": how.get("user", CONTROLLER),
                "extra": {"authentication.kubernetes.io/credential-id": ["JTI=abc"]},
            },
            "userAgent": "pvc-prebinder/0.1.0",
            "objectRef": {"resource": "persistentvolumes", "name": "v1"},
            "responseStatus": {"code": how.get("code", 200)},
            "requestObject": {"metadata": {"resourceVersion": "6"}},
            "responseObject": answer,
            "requestReceivedTimestamp": f"2026-01-01T00:00:0{how.get('second', 0)}.000000Z",
        }
    )


def test_a_write_is_its_users() -> None:
    (write,) = read([event()], Parties())
    assert (write.party, write.revision, write.key, write.credential) == (Party.CONTROLLER, 7, "v1", "abc")
    (other,) = read([event(user="admin")], Parties())
    assert other.party is Party.OTHER


def test_reads_and_lines_cut_off_are_passed_over() -> None:
    assert list(read([event(verb="watch"), event()[:50], ""], Parties())) == []


def test_a_rejected_write_has_no_version() -> None:
    (write,) = read([event(code=409)], Parties())
    assert write.revision == 0


def test_a_patch_that_changed_nothing_is_not_the_author() -> None:
    authors = Authors(read([event(second=2), event(second=1, user="admin")], Parties()))
    author = authors.of("PersistentVolume", "v1", 7)
    assert author is not None
    assert author.party is Party.OTHER
