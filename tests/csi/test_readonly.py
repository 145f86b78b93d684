"""Only reading calls can be sent: no other name is in the code, and none goes over the wire."""

import ast
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from csi import readonly
from csi.drivers import Drivers
from csi.endpoint import Endpoint
from csi.proto import csi_v1_pb2 as csi
from csi.readonly import ReadOnlyMethod
from kube.clock import SystemClock
from tests.csi.observers import Recorder
from tests.csi.scripted_driver import NAME, Refused, Rpc, ScriptedDriver, gives, volume_answer

ROOT = Path(__file__).parents[2]
ALLOWED = {
    "/csi.v1.Identity/GetPluginInfo",
    "/csi.v1.Identity/GetPluginCapabilities",
    "/csi.v1.Identity/Probe",
    "/csi.v1.Controller/ControllerGetCapabilities",
    "/csi.v1.Controller/ListVolumes",
    "/csi.v1.Controller/ControllerGetVolume",
    "/csi.v1.Controller/GetCapacity",
    "/csi.v1.Controller/ControllerGetVolumeHealth",
    "/csi.v1.Controller/ControllerListVolumeHealth",
}
PRODUCT = [
    path
    for package in ("prebinder", "scheduler", "binder", "csi", "kube")
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
    modules = imports | {found for found, _ in from_imports} | {f"{found}.{name}" for found, name in from_imports}
    assert not any("csi_v1_pb2_grpc" in found for found in modules), "the stubs can call everything"
    assert module == "csi/channel.py" or not any(found.split(".")[0] == "grpc" for found in modules)
    if module not in ("csi/readonly.py", "csi/channel.py"):
        assert "ReadOnlyMethod" not in names | {name for _, name in from_imports}
    if module != "csi/readonly.py":
        assert "/csi.v1." not in path.read_text()


async def test_only_reading_calls_are_on_the_wire(tmp_path: Path) -> None:
    """Every path through the client: each kind of driver, answers and failures, new negotiation."""
    seen: set[str] = set()
    kinds: list[list[int]] = [[Rpc.GET_VOLUME, Rpc.VOLUME_CONDITION], [Rpc.GET_VOLUME], [16, 17], []]
    for number, rpcs in enumerate(kinds):
        socket = tmp_path / f"{number}.sock"
        async with ScriptedDriver(socket, rpcs=rpcs) as driver:
            drivers = Drivers([Endpoint(NAME, str(socket))], SystemClock(), Recorder())
            for script in (
                gives(volume_answer("v")),
                gives(volume_answer("v", abnormal=True)),
                gives(Refused(grpc.StatusCode.NOT_FOUND)),
                gives(Refused(grpc.StatusCode.UNIMPLEMENTED)),
                gives(b"\xff"),
            ):
                driver.script["ControllerGetVolume"] = script
                await drivers.verdict(NAME, "v", timedelta())
            await drivers.close()
            seen |= set(driver.calls)
    assert seen <= ALLOWED
    assert "/csi.v1.Controller/ControllerGetVolume" in seen, "the test asked nothing"
