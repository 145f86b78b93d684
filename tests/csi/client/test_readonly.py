"""Only reading calls can be sent: no other name is in the code, and none goes over the wire."""

import ast
import re
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from csi.client import readonly
from csi.client.endpoint import Endpoint
from csi.client.readonly import ReadOnlyMethod
from csi.drivers import Drivers
from csi.proto import csi_v1_pb2 as csi
from csi.volume_probes import Pace
from kube.clock import SystemClock
from tests.csi.observers import Order, Recorder, Sweeps
from tests.csi.scripted_driver import NAME, Rejected, Rpc, ScriptedDriver, gives, volume_answer

ROOT = Path(__file__).parents[3]
ALLOWED = {
    "/csi.v1.Identity/GetPluginInfo",
    "/csi.v1.Identity/GetPluginCapabilities",
    "/csi.v1.Identity/Probe",
    "/csi.v1.Controller/ControllerGetCapabilities",
    "/csi.v1.Controller/ListVolumes",
    "/csi.v1.Controller/ControllerGetVolume",
    "/csi.v1.Controller/ControllerGetVolumeHealth",
    "/csi.v1.Controller/ControllerListVolumeHealth",
}
PRODUCT = [
    path
    for package in ("prebinder", "why", "scheduler", "binder", "csi", "kube")
    for path in (ROOT / package).rglob("*.py")
    if "proto" not in path.parts
]


def test_the_list_is_complete_and_nothing_else() -> None:
    methods = [value for value in vars(readonly).values() if isinstance(value, ReadOnlyMethod)]
    assert {method.path for method in methods} == ALLOWED
    for method in methods:
        services = csi.DESCRIPTOR.services_by_name
        described = services[method.service].methods_by_name[method.name]
        assert described.input_type is method.request.DESCRIPTOR
        assert described.output_type is method.answer.DESCRIPTOR


@pytest.mark.parametrize("path", PRODUCT, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_of_the_product_can_name_another_method(path: Path) -> None:
    module = str(path.relative_to(ROOT))
    tree = ast.parse(path.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imports = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    from_imports = {
        (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    modules = imports | {source for source, _ in from_imports} | {f"{source}.{name}" for source, name in from_imports}
    assert not any("csi_v1_pb2_grpc" in imported for imported in modules), "the stubs can call everything"
    assert module == "csi/client/channel.py" or not any(imported.split(".")[0] == "grpc" for imported in modules)
    if module not in ("csi/client/readonly.py", "csi/client/channel.py", "csi/client/session.py"):
        assert "ReadOnlyMethod" not in names | {name for _, name in from_imports}
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert module == "csi/client/readonly.py" or "ReadOnlyMethod" not in called
    if module != "csi/client/readonly.py":
        assert "/csi.v1." not in path.read_text()


WORDS = {word for path in PRODUCT for word in re.findall(r"\w+", path.read_text())}
ALL_METHODS = {method.name for service in csi.DESCRIPTOR.services_by_name.values() for method in service.methods}


@pytest.mark.parametrize("name", sorted(ALL_METHODS - {path.rpartition("/")[2] for path in ALLOWED}))
def test_no_other_method_is_named_anywhere(name: str) -> None:
    """Not even in a text from which a path could be put together."""
    assert name not in WORDS


def test_there_is_one_place_that_sends() -> None:
    sends = re.compile(r"\b(?:unary|stream)_(?:unary|stream)\b")
    places = [path.relative_to(ROOT).as_posix() for path in PRODUCT for _ in sends.finditer(path.read_text())]
    assert places == ["csi/client/channel.py"]


KINDS: dict[str, list[int]] = {
    "1.13": [Rpc.GET_VOLUME_HEALTH, Rpc.LIST_VOLUME_HEALTH, Rpc.GET_VOLUME],
    "1.13 by get": [Rpc.GET_VOLUME_HEALTH],
    "1.12": [Rpc.GET_VOLUME, Rpc.VOLUME_CONDITION, Rpc.LIST_VOLUMES],
    "1.12 by list": [Rpc.LIST_VOLUMES, Rpc.VOLUME_CONDITION],
    "existence": [Rpc.GET_VOLUME],
    "nothing": [],
    "everything": list(Rpc.Type.values()),
}
ANSWERS = [
    gives(volume_answer("v", zones=["a"])),
    gives(volume_answer("v", abnormal=True)),
    gives(Rejected(grpc.StatusCode.NOT_FOUND)),
    gives(Rejected(grpc.StatusCode.UNIMPLEMENTED)),
    gives(Rejected(grpc.StatusCode.UNAVAILABLE)),
    gives(b"\xff"),
]


async def test_only_reading_calls_are_on_the_wire(tmp_path: Path) -> None:
    """Every path through the client: each kind of driver, answers and failures, new negotiation, sweeps."""
    seen: set[str] = set()
    for number, rpcs in enumerate(KINDS.values()):
        socket = tmp_path / f"{number}.sock"
        async with ScriptedDriver(socket, rpcs=rpcs) as driver:
            drivers = Drivers([Endpoint(NAME, str(socket))], SystemClock(), Recorder())
            sweep = drivers.sweep(NAME, Order("v", "w"), Pace(), Sweeps())
            for script in ANSWERS:
                for method in ("ControllerGetVolume", "ControllerGetVolumeHealth", "ListVolumes"):
                    driver.script[method] = script
                await drivers.verdict(NAME, "v", timedelta())
                await sweep.run()
                await sweep.run_if_due()
            await drivers.close()
            seen |= set(driver.calls)
    assert seen == ALLOWED, "another call, or a path that was not taken"
