"""Pages of lists, split without being decoded."""

from contextlib import suppress

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from csi.client.channel import CallFailed, TooLarge
from csi.client.page_entries import MAX_PAGE_ENTRIES, split_page
from csi.client.size_limits import VOLUME_BYTES
from csi.health.report_source import MALFORMED
from csi.health.size_limit import SizeLimit
from csi.proto import csi_v1_pb2 as csi

identifiers = st.text(max_size=300)


@given(st.lists(identifiers, max_size=20), identifiers)
def test_a_page_has_the_entries_that_it_has_when_decoded(volume_ids: list[str], token: str) -> None:
    listed = [csi.ListVolumesResponse.Entry(volume=csi.Volume(volume_id=each)) for each in volume_ids]
    page = csi.ListVolumesResponse(entries=listed, next_token=token)
    entries, next_token = split_page(page.SerializeToString())
    assert [csi.ListVolumesResponse.Entry.FromString(entry) for entry in entries] == listed
    assert next_token == token


@given(st.binary(max_size=60))
def test_of_any_bytes_it_reads_what_protobuf_reads_or_nothing(received: bytes) -> None:
    """It skips no groups, which proto3 does not have."""
    with suppress(CallFailed, DecodeError):
        page = csi.ListVolumesResponse.FromString(received)
        entries, token = split_page(received)
        assert [csi.ListVolumesResponse.Entry.FromString(entry) for entry in entries] == list(page.entries)
        assert token == page.next_token


@pytest.mark.parametrize(
    "received",
    [
        pytest.param(b"\x0a", id="without a length"),
        pytest.param(b"\x0a\x05abc", id="cut off"),
        pytest.param(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", id="a length of more than 64 bits"),
        pytest.param(b"\x12\x02\xff\xfe", id="a token that is no text"),
        pytest.param(b"\x0b\x0c", id="a group"),
        pytest.param(b"\x09\x00", id="half a number"),
        pytest.param(b"<html>", id="another protocol"),
    ],
)
def test_what_is_no_page_is_an_error(received: bytes) -> None:
    with pytest.raises(CallFailed, match="cannot be decoded") as failed:
        split_page(received)
    assert failed.value.code == MALFORMED


@pytest.mark.parametrize(
    "received",
    [b"\x0a\x00", b"\x12\x00", b"\x18\x00", b"\x7a\x00"],
    ids=["entries", "tokens", "numbers", "unknown fields"],
)
def test_fields_without_number_are_not_all_read(received: bytes) -> None:
    assert split_page(received * MAX_PAGE_ENTRIES)
    with pytest.raises(TooLarge) as failed:
        split_page(received * 2_000_000)
    assert failed.value.limit is SizeLimit.LIST


def test_an_entry_is_no_larger_than_a_volume_may_be() -> None:
    def page(size: int) -> bytes:
        content = csi.VolumeHealth(volume_id="x" * size)
        return csi.ControllerListVolumeHealthResponse(entries=[content]).SerializeToString()

    assert len(split_page(page(VOLUME_BYTES - 4))[0]) == 1
    with pytest.raises(TooLarge, match="524289 bytes, 524288 allowed"):
        split_page(page(VOLUME_BYTES - 3))
