import re

import pytest

from devcluster.build.modules import (
    DEFAULT_KUBERNETES,
    KWOK,
    MOCK_DRIVER,
    NODE,
    SANITY,
    SIDECARS,
    Module,
    control_plane,
    kubernetes_versions,
    minor_version,
)

CONTROL_PLANES = [control_plane(version) for version in kubernetes_versions()]


@pytest.mark.parametrize(
    "module", [*CONTROL_PLANES, MOCK_DRIVER, KWOK, SANITY, *SIDECARS, *NODE], ids=lambda module: str(module.name)
)
def test_every_package_is_pinned_by_its_module(module: Module) -> None:
    go_mod = (module.source / "go.mod").read_text(encoding="utf-8")
    sums = (module.source / "go.sum").read_text(encoding="utf-8")
    for package in module.packages.values():
        if package.startswith("./"):
            assert (module.source / package / "main.go").is_file()
            continue
        tools = [line.removeprefix("tool").strip() for line in go_mod.splitlines()]
        assert package in tools
        pinned = re.findall(r"^\t?(?:require )?(\S+) (v\S+)", go_mod, re.MULTILINE)
        assert any(package.startswith(path) and f"{path} {version} h1:" in sums for path, version in pinned)


@pytest.mark.parametrize("module", CONTROL_PLANES, ids=lambda module: str(module.name))
def test_the_version_the_api_server_reports_is_the_one_it_is_built_from(module: Module) -> None:
    version, major, minor = kubernetes_of(module)
    assert module.name == f"controlplane-{major}.{minor}"
    for flag in (f"gitVersion={version}", f"gitMajor={major}", f"gitMinor={minor}"):
        assert flag in module.linker_flags.replace("k8s.io/component-base/version.", "").split()


@pytest.mark.parametrize("module", [*CONTROL_PLANES, NODE[0]], ids=lambda module: str(module.name))
def test_kubernetes_own_modules_are_of_one_version(module: Module) -> None:
    version = kubernetes_of(module)[0]
    go_mod = (module.source / "go.mod").read_text(encoding="utf-8")
    replaced = set(re.findall(r"k8s\.io/\S+ => k8s\.io/\S+ (\S+)", go_mod))
    assert replaced == {version.replace("v1.", "v0.", 1)}


def test_the_default_is_one_of_the_versions() -> None:
    assert DEFAULT_KUBERNETES in kubernetes_versions()
    assert kubernetes_versions() == sorted(kubernetes_versions(), key=minor_version)


def test_the_kubelet_may_join_the_default_control_plane() -> None:
    """A kubelet is not newer than the API server, and not more than three minor versions older."""
    _, _, kubelet = kubernetes_of(NODE[0])
    assert 0 <= minor_version(DEFAULT_KUBERNETES)[1] - int(kubelet) <= 3


def kubernetes_of(module: Module) -> tuple[str, str, str]:
    """The version that the module pins: in full, its major part and its minor part."""
    go_mod = (module.source / "go.mod").read_text(encoding="utf-8")
    match = re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)", go_mod)
    assert match is not None
    return match[1], match[2], match[3]
