import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.build.binaries import CONTROL_PLANE, KWOK, NODE, SANITY, Module, fingerprint, has_to_build

# Stands in for Go: notes each build in a file, takes long enough for two builders to meet, writes a "binary".
FAKE_GO = """\
#!/bin/sh
if [ "$1" = env ]; then echo go1.99.0; exit; fi
for argument; do
  if [ "$previous" = -o ]; then output=$argument; fi
  previous=$argument
done
echo "$previous" >> "$BUILDS"
sleep 0.2
case "$previous" in *"$BREAKS") echo "cannot build $previous"; exit 1;; esac
echo binary > "$output"
"""


@pytest.mark.parametrize("module", [CONTROL_PLANE, KWOK, SANITY, *NODE], ids=lambda module: module.name)
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


def test_the_version_the_api_server_reports_is_the_one_it_is_built_from() -> None:
    go_mod = (CONTROL_PLANE.source / "go.mod").read_text(encoding="utf-8")
    match = re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)", go_mod)
    assert match is not None
    version, major, minor = match.groups()
    for flag in (f"gitVersion={version}", f"gitMajor={major}", f"gitMinor={minor}"):
        assert flag in CONTROL_PLANE.linker_flags.replace("k8s.io/component-base/version.", "").split()


def test_the_kubelet_is_of_the_control_planes_version() -> None:
    versions = set()
    for module in (CONTROL_PLANE, NODE[0]):
        go_mod = (module.source / "go.mod").read_text(encoding="utf-8")
        versions |= set(re.findall(r"k8s\.io/kubernetes (v\S+)", go_mod))
    assert len(versions) == 1


def test_modules_have_different_fingerprints_and_keep_them() -> None:
    modules = [CONTROL_PLANE, KWOK, SANITY, *NODE]
    assert len({fingerprint(module) for module in modules}) == len(modules)
    assert fingerprint(KWOK) == fingerprint(KWOK)
    assert fingerprint(KWOK) != fingerprint(Module(KWOK.name, KWOK.packages, "-s"))


def test_several_processes_at_once_build_once(tmp_path: Path) -> None:
    first, second = start_build(tmp_path), start_build(tmp_path)
    errors = [process.communicate()[1] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    packages = [*CONTROL_PLANE.packages.values(), *KWOK.packages.values(), *SANITY.packages.values()]
    assert (tmp_path / "builds").read_text(encoding="utf-8").splitlines() == packages
    assert any("waiting for another build" in error for error in errors)
    for package in ("kube-apiserver", "kwok", "csi-sanity"):
        assert any(f"building {package}" in error for error in errors)


def test_what_is_built_is_not_built_again(tmp_path: Path) -> None:
    start_build(tmp_path).communicate()
    (tmp_path / "builds").unlink()
    again = start_build(tmp_path)
    assert again.communicate() == ("", "")
    assert not (tmp_path / "builds").exists()


def test_only_what_is_not_in_the_cache_has_to_be_built(tmp_path: Path) -> None:
    assert has_to_build([CONTROL_PLANE, KWOK], tmp_path)
    (tmp_path / f"{KWOK.name}-{fingerprint(KWOK)}").mkdir()
    assert has_to_build([CONTROL_PLANE, KWOK], tmp_path)
    assert not has_to_build([KWOK], tmp_path)


def test_a_failed_build_says_why_and_is_tried_again(tmp_path: Path) -> None:
    failed = start_build(tmp_path, breaks="kube-scheduler")
    _, errors = failed.communicate()
    assert failed.returncode == 1
    assert "cannot build k8s.io/kubernetes/cmd/kube-scheduler" in errors
    again = start_build(tmp_path)
    again.communicate()
    assert again.returncode == 0


def test_binaries_already_there_are_used(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.mkdir()
    for name in [*CONTROL_PLANE.packages, *KWOK.packages, *SANITY.packages]:
        (ready / name).touch(mode=0o755)
    given = start_build(tmp_path, PVC_PREBINDER_CLUSTER_BIN=str(ready))
    assert given.communicate() == ("", "")
    assert given.returncode == 0


def test_a_given_directory_without_the_binaries_is_an_error_that_names_them(tmp_path: Path) -> None:
    given = start_build(tmp_path, PVC_PREBINDER_CLUSTER_BIN=str(tmp_path))
    _, errors = given.communicate()
    assert given.returncode == 1
    assert f"PVC_PREBINDER_CLUSTER_BIN is {tmp_path}" in errors
    assert "kube-apiserver" in errors


def start_build(directory: Path, breaks: str = "nothing", **variables: str) -> subprocess.Popen[str]:
    """Run `python -m devcluster.build` with a fake Go and a cache of its own."""
    programs = directory / "programs"
    programs.mkdir(exist_ok=True)
    go = programs / "go"
    go.write_text(FAKE_GO, encoding="utf-8")
    go.chmod(0o755)
    environment = dict(os.environ) | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(directory / "cache"),
        "BUILDS": str(directory / "builds"),
        "BREAKS": breaks,
        "PVC_PREBINDER_CLUSTER_BIN": "",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "devcluster.build"],
        env=environment | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
