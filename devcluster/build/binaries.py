"""Builds the binaries of the control plane, once for each set of pinned versions.

The results are kept in the user's cache directory under a hash of go.mod, go.sum and our own Go sources. Only what is
asked for is built: the demo does without kubectl.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from devcluster.build import toolchain
from devcluster.build.modules import Module
from devcluster.errors import ClusterError
from devcluster.progress import Progress

BINARIES_VARIABLE = "PVC_PREBINDER_CLUSTER_BIN"
ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
"""Where setup-envtest puts etcd, kube-apiserver and kubectl: used for what PVC_PREBINDER_CLUSTER_BIN lacks."""

BUILD_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false")
"""For all modules. What the linker strips anyway is not generated in the first place: that takes an eighth of the
processor time, and stack traces do not need it. The binaries do the same, so that fingerprints leave these flags out.
"""

_VERSION = re.compile(r"v[0-9]+")
_POLL_SECONDS = 0.1
_TAIL_LINES = 20


def ensure(modules: Sequence[Module]) -> dict[str, Path]:
    """Return the paths of all binaries of these modules, building what is missing.

    That may take minutes and is reported on stderr. Several processes may call it at once: one builds, the others wait.
    ClusterError if there is no Go, or a build fails.
    """
    given = os.environ.get(BINARIES_VARIABLE)
    if given:
        return _given_binaries(Path(given), modules)
    return {name: path for module in modules for name, path in _built(module, cache_directory()).items()}


def has_to_build(modules: Sequence[Module], cache: Path) -> bool:
    """Whether `ensure` would build something for this cache directory, which takes minutes."""
    if os.environ.get(BINARIES_VARIABLE):
        return False
    return any(_missing(module, _directory(module, cache)).packages for module in modules)


def cache_directory() -> Path:
    """Return where binaries are kept: below XDG_CACHE_HOME, or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pvc-prebinder"


def fingerprint(module: Module) -> str:
    """Return a name for exactly what would be built: pinned versions, our sources, the linker flags, the machine."""
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()} {module.linker_flags}".encode())
    for path in sorted(module.source.rglob("*")):
        if path.name in {"go.mod", "go.sum"} or path.suffix == ".go":
            digest.update(f"\0{path.relative_to(module.source)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _given_binaries(directory: Path, modules: Sequence[Module]) -> dict[str, Path]:
    assets = os.environ.get(ASSETS_VARIABLE)
    names = [name for module in modules for name in module.packages]
    paths = {
        name: path
        for place in (*([Path(assets)] if assets else []), directory)
        for name in names
        if os.access(path := place / name, os.X_OK)
    }
    missing = sorted(set(names) - paths.keys())
    if missing:
        raise ClusterError(
            f"{BINARIES_VARIABLE} is {directory}, which has no executable {', '.join(missing)}; "
            "put them there, or unset it to have them built"
        )
    return paths


def _directory(module: Module, cache: Path) -> Path:
    return cache / f"{module.name}-{fingerprint(module)}"


def _missing(module: Module, directory: Path) -> Module:
    """Return the module with only those packages whose binaries are not there."""
    return module.only(name for name in module.packages if not (directory / name).exists())


def _built(module: Module, cache: Path) -> dict[str, Path]:
    directory = _directory(module, cache)
    if _missing(module, directory).packages:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(_beside(directory, ".lock")):
            missing = _missing(module, directory)
            if missing.packages:
                _build(missing, directory)
    return {name: directory / name for name in module.packages}


def _build(module: Module, directory: Path) -> None:
    """Build into a temporary directory and rename at the end: an interrupted build leaves nothing incomplete.

    All at once: while one binary is linked, which hardly uses a second core, packages of the next are compiled.
    """
    required = toolchain.required_version((module.source / "go.mod").read_text(encoding="utf-8"))
    go = toolchain.find(required, directory.parent, run)
    partial = _beside(directory, ".partial")
    # With the lock held, anything that exists was left by a build that was killed.
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    flags = [*BUILD_FLAGS, f"-ldflags={module.linker_flags}", "-o", f"{partial}{os.sep}"]
    what = f"building {', '.join(module.packages)} ({module.name})"
    run([str(go), "build", *flags, *module.packages.values()], what, module.source)
    directory.mkdir(exist_ok=True)
    for name, package in module.packages.items():
        (partial / default_name(package, module)).rename(directory / name)
    partial.rmdir()


def default_name(package: str, module: Module) -> str:
    """Return the name that Go gives to the binary of a package: the last element of its path, a version aside.

    Source: DefaultExecName in cmd/go/internal/load/pkg.go.
    """
    if package == "./":
        return module.source.name
    *before, last = package.split("/")
    return before[-1] if before and _VERSION.fullmatch(last) else last


def _beside(directory: Path, ending: str) -> Path:
    """Return the directory's name with an ending; the dot in a version is not a suffix to be replaced."""
    return directory.with_name(directory.name + ending)


def run(command: Sequence[str], what: str, directory: Path | None = None) -> None:
    """Run a command with a progress line; ClusterError with the end of its output if it fails."""
    progress = Progress(what)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=toolchain.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            while process.poll() is None:
                progress.tick()
                time.sleep(_POLL_SECONDS)
        except BaseException:
            process.terminate()
            process.wait()
            progress.done("interrupted")
            raise
        progress.done("done" if process.returncode == 0 else "failed")
        if process.returncode != 0:
            output.seek(0)
            tail = output.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
            raise ClusterError("\n".join([f"{what} failed:", *tail]))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress = Progress("waiting for another build of the same binaries")
            while not _try_lock(file.fileno()):
                progress.tick()
                time.sleep(_POLL_SECONDS)
            progress.done()
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
