"""The vendored protocol: the numbers on the wire, and that it can share a process with another CSI library."""

from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, text_format
from grpc_tools import protoc

from csi.proto import csi_v1_pb2 as csi
from csi.proto.regenerate import PRIVATE_PACKAGE, PROTO, ROOT, STUBS, WELL_KNOWN

Controller = csi.ControllerServiceCapability.RPC
Node = csi.NodeServiceCapability.RPC


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(Controller.VOLUME_CONDITION, 11, id="controller VOLUME_CONDITION, retired in 1.13"),
        pytest.param(Controller.GET_VOLUME, 12, id="controller GET_VOLUME"),
        pytest.param(Controller.GET_VOLUME_HEALTH, 16, id="controller GET_VOLUME_HEALTH"),
        pytest.param(Controller.LIST_VOLUME_HEALTH, 17, id="controller LIST_VOLUME_HEALTH"),
        pytest.param(Node.VOLUME_CONDITION, 4, id="node VOLUME_CONDITION, retired in 1.13"),
        pytest.param(Node.GET_VOLUME_HEALTH, 7, id="node GET_VOLUME_HEALTH"),
        pytest.param(Node.GET_STORAGE_HEALTH, 8, id="node GET_STORAGE_HEALTH"),
        pytest.param(csi.DEGRADED, 1, id="DEGRADED"),
        pytest.param(csi.INACCESSIBLE, 2, id="INACCESSIBLE"),
        pytest.param(csi.DATA_LOSS, 3, id="DATA_LOSS"),
    ],
)
def test_numbers(value: int, expected: int) -> None:
    """From csi.proto of v1.12.0 and v1.13.0; the README of KEP-1432 prints other numbers for the statuses."""
    assert value == expected


@pytest.mark.parametrize(
    "message",
    [
        csi.ListVolumesResponse.VolumeStatus,
        csi.ControllerGetVolumeResponse.VolumeStatus,
        csi.NodeGetVolumeStatsResponse,
    ],
    ids=lambda message: message.DESCRIPTOR.full_name,
)
def test_the_condition_is_field_two(message: type[csi.NodeGetVolumeStatsResponse]) -> None:
    condition = message.FromString(b"\x12\x06\x08\x01\x12\x02no").volume_condition
    assert (condition.abnormal, condition.message) == (True, "no")


def test_another_csi_library_can_be_loaded_beside_this_one() -> None:
    theirs = descriptor_pb2.FileDescriptorProto()
    csi.DESCRIPTOR.CopyToProto(theirs)
    text = text_format.MessageToString(theirs).replace(PRIVATE_PACKAGE, "csi.v1.")
    theirs = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
    theirs.name, theirs.package = "csi.proto", "csi.v1"
    # The default pool is the one that all generated modules of a process share; a clash raises TypeError.
    descriptor_pool.Default().AddSerializedFile(theirs.SerializeToString())


def test_the_stubs_are_made_from_the_vendored_file(tmp_path: Path) -> None:
    assert protoc.main(["protoc", f"-I{ROOT}", f"-I{WELL_KNOWN}", f"--python_out={tmp_path}", PROTO]) == 0
    made = Path("csi/proto/csi_v1_pb2.py")
    assert (tmp_path / made).read_text() == (ROOT / made).read_text(), "run python -m csi.proto.regenerate"


def test_the_stubs_carry_the_public_service_names() -> None:
    stubs = STUBS.read_text()
    assert "'/csi.v1.Controller/CreateVolume'" in stubs
    assert PRIVATE_PACKAGE not in stubs
