"""The programs that read manifests/, of pinned versions, built once from Go modules as the control plane is."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
import yaml

from devcluster.build import binaries
from devcluster.build.modules import Module, control_plane
from devcluster.errors import ClusterError

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
OLDEST: Final = Module("kustomize-5.0", {"kustomize-5.0": "sigs.k8s.io/kustomize/kustomize/v5"})
"""What kubectl 1.27 contains, the oldest that pvc-prebinder supports."""
HELM: Final = {
    name: Module(name, {name: f"helm.sh/helm/{version}/cmd/helm"})
    for name, version in (("helm-3", "v3"), ("helm-4", "v4"))
}
KUSTOMIZE_VERSIONS: Final = ("current", "5.0")
Document = dict[str, Any]


def kustomize(directory: Path, version: str = "current") -> subprocess.CompletedProcess[str]:
    """Run kustomize: the one in the devcluster's kubectl, or the oldest."""
    command: list[str | Path] = (
        [binary(control_plane(), "kubectl"), "kustomize"]
        if version == "current"
        else [binary(OLDEST, "kustomize-5.0"), "build"]
    )
    return subprocess.run([*command, directory], capture_output=True, check=False, text=True)


def built(directory: Path, version: str = "current") -> list[Document]:
    """Return the documents that a kustomization makes."""
    process = kustomize(directory, version)
    assert process.returncode == 0, process.stderr
    return list(yaml.safe_load_all(process.stdout))


def overlay_of_base(components: Sequence[str] = (), version: str = "current", **more: object) -> list[Document]:
    """Return what an overlay of manifests/base with these components, and `more` in its kustomization, makes."""
    with TemporaryDirectory() as temporary:
        overlay = Path(temporary) / "overlay"
        overlay.mkdir()
        write_kustomization(
            overlay,
            resources=[relative(MANIFESTS / "base", overlay)],
            components=[relative(MANIFESTS / "components" / name, overlay) for name in components],
            **more,
        )
        return built(overlay, version)


def write_kustomization(directory: Path, **keys: object) -> None:
    header = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(header | keys))


def relative(path: Path, directory: Path) -> str:
    """Return the path as kustomize takes it: relative only."""
    return os.path.relpath(path.resolve(), directory.resolve())


def by_name(documents: Sequence[Document]) -> Mapping[tuple[str, str, str], Document]:
    """Return documents by kind, namespace and name."""
    return {
        (document["kind"], document["metadata"].get("namespace", ""), document["metadata"]["name"]): document
        for document in documents
    }


def binary(module: Module, name: str) -> Path:
    """Return a program, built if it is missing; without Go the test is skipped, and says so."""
    try:
        return binaries.ensure([module])[name]
    except ClusterError as error:
        pytest.skip(f"{name} cannot be built here: {error}")


def main(arguments: Sequence[str]) -> int:
    """Build the oldest kustomize, or with `helm` Helm; with `render DIRECTORY` print what kustomize makes of that."""
    try:
        if arguments == ["helm"]:
            binaries.ensure(list(HELM.values()))
            return 0
        program = binaries.ensure([OLDEST])["kustomize-5.0"]
    except ClusterError as error:
        sys.stderr.write(f"not built, so some tests of manifests/ are skipped: {error}\n")
        return 1 if arguments else 0
    if not arguments:
        return 0
    _, directory = arguments
    return subprocess.run([program, "build", directory], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
