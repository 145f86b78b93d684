"""What goes into the container image: pinned, and without what no component loads."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
IN_THE_IMAGE = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["tracing"]]
PINNED = re.compile(r"^([a-z0-9-]+)==(\S+)(?: ; .*)? \\$", re.MULTILINE)
# What the command line finds by name when a command is typed, too; with the official client's package as trim.sh leaves
# it, which imports nothing.
LOADED = """\
import importlib, importlib.util, pkgutil, sys, types
package = types.ModuleType("kubernetes")
package.__path__ = importlib.util.find_spec("kubernetes").submodule_search_locations
sys.modules["kubernetes"] = package
import prebinder
for module in pkgutil.walk_packages(prebinder.__path__, "prebinder."):
    importlib.import_module(module.name)
import kube.client.kubeconfig
print(*(name for name in sys.modules if name.startswith("kubernetes.")), sep="\\n")
"""


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [("runtime.lock", IN_THE_IMAGE), ("build.lock", PROJECT["build-system"]["requires"])],
)
def test_every_dependency_is_pinned_with_hashes_to_a_version_that_is_allowed(
    lock: str, requirements: list[str]
) -> None:
    text = (ROOT / "image" / lock).read_text(encoding="utf-8")
    pinned = {canonicalize_name(name): version for name, version in PINNED.findall(text)}
    for requirement in map(Requirement, requirements):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(pinned)
    assert all("--hash=sha256:" in entry for entry in entries)


def test_no_component_loads_what_the_image_leaves_out() -> None:
    """image/trim.sh removes the modules of these packages; the packages themselves stay, the outermost one empty."""
    loaded = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout.split()
    assert "kubernetes.aio.client.configuration" in loaded
    left_out = re.compile(r"kubernetes\.(?!aio(\.|$))|kubernetes\.aio\.client\.(api|models)\.")
    assert [name for name in loaded if left_out.match(name)] == []


def test_a_controller_in_a_pod_loads_only_what_it_uses() -> None:
    """No kubeconfig, no CSI driver and no extender: no official client, gRPC, OpenTelemetry or extender."""
    code = "import sys, prebinder.commands.run.controller, prebinder.controller.process; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "kube.client.connect" in loaded
    unused = re.compile(r"(kubernetes|grpc|google\.protobuf|opentelemetry|pydantic|highspy|scheduler)(\.|$)")
    assert [name for name in loaded if unused.match(name)] == []


def test_only_sources_reach_the_image_build() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    packages = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert "*" in ignored
    assert allowed == packages | {"pyproject.toml", "README.md", "LICENSE", "image", "docs/causes"}
