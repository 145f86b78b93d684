"""What a CSI driver can answer to harm a client: each kind is harmless but for one thing.

A driver does not have to be malicious for it: a bug in its paging, a storage with a million volumes, a proxy.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import grpc

from csi.proto import csi_v1_pb2 as csi

MIB: Final = 1024 * 1024
ZONE: Final = "topology.kubernetes.io/zone"

_Rpc = csi.ControllerServiceCapability.RPC
_Service = csi.PluginCapability.Service
GET: Final = (_Rpc.GET_VOLUME, _Rpc.VOLUME_CONDITION)
LIST: Final = (_Rpc.LIST_VOLUMES, _Rpc.VOLUME_CONDITION)
HEALTH: Final = (_Rpc.GET_VOLUME_HEALTH, _Rpc.LIST_VOLUME_HEALTH)

Answer = Callable[[bytes, grpc.ServicerContext], bytes]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of hostility. `answers` replace those of a good driver, by the method's short name.

    `drip` is the number of bytes a second that arrive from it, `cut` the number after which its connection is closed,
    `flood` whether it sends bytes that are no answer.
    """

    rpcs: Iterable[int] = GET
    answers: Mapping[str, Answer] = field(default_factory=dict)
    compression: grpc.Compression = grpc.Compression.NoCompression
    drip: int = 0
    cut: int = 0
    flood: bool = False


def good(name: str, rpcs: Iterable[int]) -> dict[str, Answer]:
    """Return the answers of a driver whose volumes are all healthy; it lists none as unhealthy."""
    services = [_Service.CONTROLLER_SERVICE, _Service.VOLUME_ACCESSIBILITY_CONSTRAINTS]
    plugin = [csi.PluginCapability(service=_Service(type=each)) for each in services]
    controller = [csi.ControllerServiceCapability(rpc=_Rpc(type=each)) for each in rpcs]  # type: ignore[arg-type]
    return {
        "GetPluginInfo": _always(csi.GetPluginInfoResponse(name=name).SerializeToString()),
        "GetPluginCapabilities": _always(csi.GetPluginCapabilitiesResponse(capabilities=plugin).SerializeToString()),
        "ControllerGetCapabilities": _always(
            csi.ControllerGetCapabilitiesResponse(capabilities=controller).SerializeToString()
        ),
        "Probe": _always(b""),
        "ControllerGetVolume": lambda request, _: volume(request, [{ZONE: "zone-a"}]),
        "ControllerGetVolumeHealth": lambda request, _: health(request),
        "ControllerListVolumeHealth": _always(b""),
        "ListVolumes": _always(b""),
    }


def volume(request: bytes, topology: Iterable[Mapping[str, str]] = (), message: str = "", **more: bool) -> bytes:
    """Return the answer about a volume."""
    handle = csi.ControllerGetVolumeRequest.FromString(request).volume_id
    accessible = [csi.Topology(segments=segments) for segments in topology]
    status = csi.ControllerGetVolumeResponse.VolumeStatus(
        volume_condition=csi.VolumeCondition(abnormal=more.get("abnormal", False), message=message)
    )
    return csi.ControllerGetVolumeResponse(
        volume=csi.Volume(volume_id=handle, accessible_topology=accessible), status=status
    ).SerializeToString()


def health(request: bytes, *entries: csi.VolumeHealth.VolumeHealthEntry) -> bytes:
    """Return the answer about a volume's health."""
    handle = csi.ControllerGetVolumeHealthRequest.FromString(request).volume_id
    return csi.ControllerGetVolumeHealthResponse(
        volume_health=csi.VolumeHealth(volume_id=handle, health_statuses=entries)
    ).SerializeToString()


def _always(answer: bytes) -> Answer:
    return lambda _request, _context: answer


_numbers: Iterator[int] = count()


def _unique(size: int) -> str:
    return f"{next(_numbers):012}".ljust(size, "x")


def _page(entries: Iterable[str], token: str) -> bytes:
    listed = [csi.ListVolumesResponse.Entry(volume=csi.Volume(volume_id=each)) for each in entries]
    return csi.ListVolumesResponse(entries=listed, next_token=token).SerializeToString()


def _topologies(number: int, size: int) -> list[Mapping[str, str]]:
    return [{f"k{next(_numbers)}": "v".ljust(size, "v")} for _ in range(number)]


def _abort(details: str) -> Answer:
    def fail(_request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.INTERNAL, details)
        raise AssertionError("abort raises")

    return fail


def _trailers(number: int, size: int) -> Answer:
    def fail(_request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(tuple((f"key-{each}", "x" * size) for each in range(number)))
        context.abort(grpc.StatusCode.INTERNAL, "see the trailers")
        raise AssertionError("abort raises")

    return fail


def _silent(_request: bytes, context: grpc.ServicerContext) -> bytes:
    while context.is_active():
        time.sleep(0.05)
    return b""


def _slow(seconds: float, answer: Answer) -> Answer:
    def late(request: bytes, context: grpc.ServicerContext) -> bytes:
        time.sleep(seconds)
        return answer(request, context)

    return late


def _capabilities(number: int) -> bytes:
    known = [csi.ControllerServiceCapability(rpc=_Rpc(type=each)) for each in GET]
    unknown = [
        csi.ControllerServiceCapability(rpc=_Rpc(type=10_000 + each))  # type: ignore[arg-type]
        for each in range(number)
    ]
    return csi.ControllerGetCapabilitiesResponse(capabilities=[*known, *unknown]).SerializeToString()


def _with_topology(encoded: bytes) -> Answer:
    """Return answers with these segments, encoded once: the driver must not need the processor that is measured."""

    def answer(request: bytes, _context: grpc.ServicerContext) -> bytes:
        handle = csi.ControllerGetVolumeRequest.FromString(request).volume_id
        return b"\x0a" + _length_and(csi.Volume(volume_id=handle).SerializeToString() + encoded)

    return answer


def _length_and(content: bytes) -> bytes:
    """Return the content with its length before it, as protobuf encodes a message within a message."""
    size, encoded = len(content), bytearray()
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*encoded, size]) + content


def _segments(number: int) -> bytes:
    topology = [csi.Topology(segments={f"k{each}": "v"}) for each in range(number)]
    return csi.Volume(accessible_topology=topology).SerializeToString()


def _entry(number: int) -> csi.VolumeHealth.VolumeHealthEntry:
    return csi.VolumeHealth.VolumeHealthEntry(status=csi.DEGRADED, reason=_unique(128), message=f"{number}" * 30)


def _ready_or_not(_request: bytes, _context: grpc.ServicerContext) -> bytes:
    return b"" if next(_numbers) % 2 else b"\x0a\x00"


def _unavailable(_request: bytes, context: grpc.ServicerContext) -> bytes:
    context.abort(grpc.StatusCode.UNAVAILABLE, "again")
    raise AssertionError("abort raises")


_EMPTY_SEGMENTS: Final = b"\x2a\x00" * (MIB // 4 - 100)
_ENTRIES: Final = [_entry(number) for number in range(1000)]

KINDS: Final[Mapping[str, Kind]] = {
    "page tokens of 4 MiB": Kind(LIST, {"ListVolumes": lambda *_: _page(["v"], _unique(4 * MIB - 100))}),
    "volume ids of 4 MiB": Kind(LIST, {"ListVolumes": lambda *_: _page([_unique(4 * MIB - 100)], _unique(20))}),
    "volume ids of 1 KiB, new in each page": Kind(
        LIST, {"ListVolumes": lambda *_: _page([_unique(1000) for _ in range(1000)], _unique(20))}
    ),
    "pages without end": Kind(LIST, {"ListVolumes": lambda *_: _page(["v"], _unique(20))}),
    "slow pages without end": Kind(LIST, {"ListVolumes": _slow(1.0, lambda *_: _page(["v"], _unique(20)))}),
    "pages of 2 million entries": Kind(LIST, {"ListVolumes": _always(b"\x0a\x00" * (2 * MIB - 20))}),
    "30,000 topology segments": Kind(GET, {"ControllerGetVolume": _with_topology(_segments(30_000))}),
    "256 topology segments, new in each answer": Kind(
        GET, {"ControllerGetVolume": lambda request, _: volume(request, _topologies(256, 200))}
    ),
    "answers of 2.6 MiB": Kind(GET, {"ControllerGetVolume": lambda request, _: volume(request, (), "x" * 2_700_000)}),
    "answers of 512 KiB without content": Kind(
        GET, {"ControllerGetVolume": _with_topology(b"\x2a\x00" * (MIB // 4 - 100))}
    ),
    "messages of 500 kB, new in each answer": Kind(
        GET, {"ControllerGetVolume": lambda request, _: volume(request, (), _unique(500_000), abnormal=True)}
    ),
    "1,000 health entries": Kind(
        HEALTH,
        {"ControllerGetVolumeHealth": lambda request, _: health(request, *_ENTRIES)},
    ),
    "100,000 unknown capabilities": Kind(GET, {"ControllerGetCapabilities": _always(_capabilities(100_000))}),
    "900 unknown capabilities": Kind(GET, {"ControllerGetCapabilities": _always(_capabilities(900))}),
    "errors of 1 MiB": Kind(GET, {"ControllerGetVolume": _abort("e" * MIB)}),
    "trailers of 1 MiB": Kind(GET, {"ControllerGetVolume": _trailers(1, MIB)}),
    "10,000 trailers": Kind(GET, {"ControllerGetVolume": _trailers(10_000, 20)}),
    # Eight calls at once would be 320 MB; with more, a busy driver takes longer to compress than a call may take.
    "gzip of 40 MB": Kind(GET, {"ControllerGetVolume": _always(bytes(40_000_000))}, compression=grpc.Compression.Gzip),
    "no answer": Kind(GET, {"ControllerGetVolume": _silent, "Probe": _silent}),
    "one byte a millisecond": Kind(GET, drip=1000),
    "connections cut": Kind(GET, cut=400),
    "bytes that are no answer": Kind(flood=True),
    "ready and not ready in turn": Kind(GET, {"Probe": _ready_or_not, "ControllerGetVolume": _unavailable}),
}
