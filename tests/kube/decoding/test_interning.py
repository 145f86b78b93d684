import gc
import json
import tracemalloc

from msgspec import UNSET, Raw

from kube.decoding.decode import decode_claim
from kube.decoding.interning import MAX_SHARED_BYTES, DecodedParts, Pool
from kube.decoding.interning import text as name_of
from kube.objects.memory import size_of


def text(number: int, length: int = 1000) -> str:
    return f"{number:0{length}}"


def test_equal_values_are_one() -> None:
    pool = Pool()
    first, second = ("a", str(1)), ("a", str(1))
    assert pool.share(first) is pool.share(second)


def test_values_seen_once_go_and_those_that_repeat_stay() -> None:
    pool = Pool(most_bytes=10_000)
    often, once = text(1), text(2)
    assert pool.share(often) is often
    assert pool.share(once) is once
    for number in range(3, 100):
        pool.share(text(number))
        assert pool.share(text(1)) is often
    again = text(2)
    assert pool.share(again) is again


def test_a_large_value_is_not_kept() -> None:
    pool = Pool()
    for parts in (MAX_SHARED_BYTES // 2_000, MAX_SHARED_BYTES // 500):
        first, second = (tuple(text(number) for number in range(parts)) for _ in range(2))
        assert pool.share(first) is first
        assert (pool.share(second) is first) == (size_of(first) <= MAX_SHARED_BYTES)


def test_equal_bytes_are_decoded_once() -> None:
    decoded: list[bytes] = []
    parts = DecodedParts(lambda part: decoded.append(part) or len(decoded), most_bytes=300)  # type: ignore[func-returns-value]
    assert [parts.of(Raw(b"[1]")), parts.of(Raw(b"[1]")), parts.of(Raw(b"[2]"))] == [1, 1, 2]
    for number in range(3, 30):
        parts.of(Raw(b"[%d]" % number))
    assert parts.of(Raw(b"[1]")) == 30


def test_names_of_deleted_objects_are_not_kept() -> None:
    """Early releases of Python 3.12 keep every interned string for ever: 80 MB for a million pods."""
    tracemalloc.start()
    try:
        names = [name_of(f"pod-{number}-{'x' * 200}") for number in range(50_000)]
        assert name_of("-".join(names[-1].split("-"))) is names[-1]
        del names
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 10 * 2**20


def test_absent_and_null_are_nothing() -> None:
    parts = DecodedParts(len)
    assert parts.of(UNSET) is None
    assert parts.of(Raw(b"null")) is None


def test_what_one_claim_says_is_not_kept_after_it_says_something_else() -> None:
    """Each version is as large as the API server allows. It once was kept for ever: 24 MiB after 100 updates."""
    tracemalloc.start()
    try:
        for version in range(100):
            own = {f"scheduler.cloud.example/{version}-{key}": text(key, 4_000) for key in range(59)}
            labels = {f"{version}-{key}": text(key, 60) for key in range(100)}
            metadata = {"name": "data", "namespace": "default", "annotations": own, "labels": labels}
            document = {"metadata": metadata, "spec": {"selector": {"matchLabels": labels}}}
            claim = decode_claim(json.dumps(document).encode())
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(len(value) for _, value in claim.annotations) <= 16 * 2**10
    assert kept < 10 * 2**20
