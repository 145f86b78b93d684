from msgspec import UNSET, Raw

from kube.sharing import DecodedParts, Pool


def test_equal_values_are_one() -> None:
    pool = Pool()
    first, second = ("a", str(1)), ("a", str(1))
    assert pool.share(first) is pool.share(second)


def test_a_pool_does_not_grow_beyond_its_size() -> None:
    pool = Pool(size=2)
    first = (0, str(9))
    assert pool.share(first) is first
    for number in range(1, 4):
        pool.share((number, "x"))
    again = (0, str(9))
    assert pool.share(again) is again


def test_equal_bytes_are_decoded_once() -> None:
    decoded: list[bytes] = []
    parts = DecodedParts(lambda part: decoded.append(part) or len(decoded), size=2)  # type: ignore[func-returns-value]
    assert [parts.of(Raw(b"[1]")), parts.of(Raw(b"[1]")), parts.of(Raw(b"[2]"))] == [1, 1, 2]
    parts.of(Raw(b"[3]"))
    assert parts.of(Raw(b"[1]")) == 4


def test_absent_and_null_are_nothing() -> None:
    parts = DecodedParts(len)
    assert parts.of(UNSET) is None
    assert parts.of(Raw(b"null")) is None
