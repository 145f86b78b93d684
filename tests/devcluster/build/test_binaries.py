import os
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.build.binaries import default_name, fingerprint, has_to_build
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
)

# Stands in for Go: notes each build in a file, takes long enough for two builders to meet, writes a "binary".
FAKE_GO = """\
#!/bin/sh
if [ "$1" = env ]; then echo go1.99.0; exit; fi
while [ "$1" != -o ]; do shift; done
output=$2
shift 2
sleep 0.2
for package; do
  echo "$package" >> "$BUILDS"
  case "$package" in *"$BREAKS") echo "cannot build $package"; exit 1;; esac
  name=${package##*/}
  case "$name" in v[0-9]*) name=${package%/*} name=${name##*/};; "") name=${PWD##*/};; esac
  echo binary > "$output$name"
done
"""


def test_modules_have_different_fingerprints_and_keep_them() -> None:
    modules = [*map(control_plane, kubernetes_versions()), MOCK_DRIVER, KWOK, SANITY, *SIDECARS, *NODE]
    assert len({fingerprint(module) for module in modules}) == len(modules)
    assert fingerprint(KWOK) == fingerprint(KWOK)
    assert fingerprint(KWOK) != fingerprint(Module(KWOK.name, KWOK.packages, "-s"))


def test_several_processes_at_once_build_once(tmp_path: Path) -> None:
    first, second = start_build(tmp_path), start_build(tmp_path)
    errors = [process.communicate()[1] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    packages = [package for module in built_by_default() for package in module.packages.values()]
    assert (tmp_path / "builds").read_text(encoding="utf-8").splitlines() == packages
    assert any("waiting for another build" in error for error in errors)
    for names in ("etcd, kube-apiserver, ", "kwok", "csi-sanity"):
        assert any(f"building {names}" in error for error in errors)
    for module in built_by_default():
        directory = tmp_path / "cache" / "pvc-prebinder" / f"{module.name}-{fingerprint(module)}"
        assert {path.name for path in directory.iterdir()} == module.packages.keys()


def test_what_is_built_is_not_built_again(tmp_path: Path) -> None:
    start_build(tmp_path).communicate()
    (tmp_path / "builds").unlink()
    again = start_build(tmp_path)
    assert again.communicate() == ("", "")
    assert not (tmp_path / "builds").exists()


def test_only_what_is_not_in_the_cache_has_to_be_built(tmp_path: Path) -> None:
    assert has_to_build([control_plane(), KWOK], tmp_path)
    kwok = tmp_path / f"{KWOK.name}-{fingerprint(KWOK)}" / "kwok"
    kwok.parent.mkdir()
    assert has_to_build([KWOK], tmp_path)
    kwok.touch()
    assert has_to_build([control_plane(), KWOK], tmp_path)
    assert not has_to_build([KWOK], tmp_path)


def test_what_was_left_out_is_built_when_it_is_needed(tmp_path: Path) -> None:
    start_build(tmp_path).communicate()
    module = control_plane(DEFAULT_KUBERNETES)
    (tmp_path / "cache" / "pvc-prebinder" / f"{module.name}-{fingerprint(module)}" / "kubectl").unlink()
    assert not has_to_build([module.without("kubectl")], tmp_path / "cache" / "pvc-prebinder")
    (tmp_path / "builds").unlink()
    start_build(tmp_path).communicate()
    assert (tmp_path / "builds").read_text(encoding="utf-8").splitlines() == [module.packages["kubectl"]]


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("k8s.io/kubernetes/cmd/kubectl", "kubectl"),
        ("go.etcd.io/etcd/server/v3", "server"),
        ("./pause", "pause"),
        ("./", "mockcsi"),
    ],
)
def test_the_name_that_go_gives_to_a_binary(package: str, name: str) -> None:
    assert default_name(package, MOCK_DRIVER) == name


def test_a_failed_build_reports_the_reason_and_is_retried(tmp_path: Path) -> None:
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
    for module in built_by_default():
        for name in module.packages:
            (ready / name).touch(mode=0o755)
    given = start_build(tmp_path, PVC_PREBINDER_CLUSTER_BIN=str(ready))
    assert given.communicate() == ("", "")
    assert given.returncode == 0


def test_what_setup_envtest_installed_completes_a_given_directory(tmp_path: Path) -> None:
    assets, ready = tmp_path / "assets", tmp_path / "ready"
    for directory in (assets, ready):
        directory.mkdir()
    for module in built_by_default():
        for name in module.packages:
            (assets if name in {"etcd", "kube-apiserver", "kubectl"} else ready).joinpath(name).touch(mode=0o755)
    given = start_build(tmp_path, PVC_PREBINDER_CLUSTER_BIN=str(ready), KUBEBUILDER_ASSETS=str(assets))
    assert given.communicate() == ("", "")
    assert given.returncode == 0


def test_a_given_directory_without_the_binaries_is_an_error_that_names_them(tmp_path: Path) -> None:
    given = start_build(tmp_path, PVC_PREBINDER_CLUSTER_BIN=str(tmp_path))
    _, errors = given.communicate()
    assert given.returncode == 1
    assert f"PVC_PREBINDER_CLUSTER_BIN is {tmp_path}" in errors
    assert "kube-apiserver" in errors


def test_versions_of_kubernetes_are_built_side_by_side(tmp_path: Path) -> None:
    for version in kubernetes_versions():
        built = start_build(tmp_path, PVC_PREBINDER_KUBERNETES=version)
        _, errors = built.communicate()
        assert built.returncode == 0, errors
        assert f"kube-scheduler, kubectl (controlplane-{version})" in errors
    cache = tmp_path / "cache" / "pvc-prebinder"
    of_versions = [path for path in cache.glob("controlplane-*") if path.is_dir()]
    assert len(of_versions) == len(kubernetes_versions())
    locks = {path.name.removesuffix(".lock") for path in cache.glob("controlplane-*.lock")}
    assert locks == {path.name for path in of_versions}


def test_an_unknown_version_of_kubernetes_is_an_error_that_names_the_others(tmp_path: Path) -> None:
    failed = start_build(tmp_path, PVC_PREBINDER_KUBERNETES="1.2")
    _, errors = failed.communicate()
    assert failed.returncode == 1
    assert errors == f"error: PVC_PREBINDER_KUBERNETES is 1.2; it must be one of {', '.join(kubernetes_versions())}\n"


def built_by_default() -> list[Module]:
    return [control_plane(DEFAULT_KUBERNETES), MOCK_DRIVER, KWOK, SANITY]


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
        "KUBEBUILDER_ASSETS": "",
        "PVC_PREBINDER_KUBERNETES": "",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "devcluster.build"],
        env=environment | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
