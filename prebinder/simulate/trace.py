"""A trace: a header line, then every change of a simulated cluster, one JSON object a line."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from prebinder.errors import CommandError
from scheduler.simulator.simulated_cluster import Entry, SimulatedCluster
from scheduler.simulator.simulated_storage import ImpossibleChange
from why.rendering.lines import warn

API_VERSION: Final = "pvc-prebinder/v1alpha1"
KIND: Final = "SimulationTrace"


class TraceHeader(Struct, frozen=True, rename="camel"):
    """The first line."""

    api_version: str
    kind: str


def written(log: Iterable[Entry]) -> bytes:
    """Return the trace of these changes."""
    lines: list[Struct] = [TraceHeader(API_VERSION, KIND), *log]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def replay(cluster: SimulatedCluster, trace: str) -> None:
    """Apply the changes of a trace, written by an earlier run with the same initial state. Raises CommandError."""
    try:
        whole, _, cut_off = Path(trace).read_bytes().rpartition(b"\n")
    except OSError as error:
        raise CommandError(f"cannot read {trace}: {error.strerror}") from error
    if cut_off:
        warn(f"{trace}: the last line is truncated and was skipped", "pvc-prebinder simulate")
    header, *lines = whole.splitlines() or [b""]
    _check_header(header, trace)
    for number, line in enumerate(lines, start=2):
        try:
            cluster.apply(msgspec.json.decode(line, type=Entry))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CommandError(f"{trace}, line {number}: expected a change as --trace writes it: {error}") from error
        except ImpossibleChange as error:
            raise CommandError(
                f"{trace}, line {number}: {error}; replay a trace with the --seed, --nodes, --pods, --zones and "
                "--volumes-per-node, or the dump, that it was written with"
            ) from error


def _check_header(line: bytes, trace: str) -> None:
    expected = f"expected a trace: kind {KIND}, apiVersion {API_VERSION}"
    try:
        header = msgspec.json.decode(line, type=TraceHeader)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{trace}, line 1: {expected}") from error
    if header != TraceHeader(API_VERSION, KIND):
        given = f"kind {header.kind[:60]}, apiVersion {header.api_version[:60]}"
        raise CommandError(f"{trace}, line 1: {expected}; found {given}")
