"""Files, directories and archives: what is read of them, and what never is."""

import bz2
import gzip
import io
import json
import lzma
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from why.errors import WhyError
from why.reading.files import ReadLimits, parts

PODS = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}).encode()
NODE = b"---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
LINES = b'{"level":"info","msg":"started"}\n' * 3
AUDIT = b'{"kind":"Event","apiVersion":"audit.k8s.io/v1"}\n'
MUST_GATHER: Mapping[str, bytes] = {
    "quay-io/cluster-scoped-resources/core/nodes/n1.yaml": NODE,
    "quay-io/namespaces/web/core/pods.json": PODS,
    "quay-io/namespaces/web/pods/a/logs/current.log": AUDIT,
    "quay-io/namespaces/web/pods/a/logs/previous.log.gz": gzip.compress(AUDIT),
    "quay-io/namespaces/web/values.yaml": b"replicas: 3\n",
    "quay-io/structured": LINES,
    "quay-io/event-filter.html": b"{ apiVersion kind }",
    "quay-io/picture.png": bytes(range(256)),
    "quay-io/empty": b"",
    "sos_commands/kubernetes/kubectl_get_pv": b"NAME  CAPACITY\npv-1  1Gi\n",
    "sos_commands/kubernetes/kubectl_--kubeconfig_.etc.admin.conf_get_-o_json_pods": PODS,
}
OBJECTS = sorted(
    [
        "quay-io/cluster-scoped-resources/core/nodes/n1.yaml",
        "quay-io/namespaces/web/core/pods.json",
        "sos_commands/kubernetes/kubectl_--kubeconfig_.etc.admin.conf_get_-o_json_pods",
    ]
)
"""The files that begin as objects do."""


def written(folder: Path, files: Mapping[str, bytes] = MUST_GATHER) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def archived(path: Path, mode: str, files: Mapping[str, bytes] = MUST_GATHER) -> Path:
    """Make an archive: a tar file in a mode of `tarfile`, or a zip file."""
    if mode == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
            for name, content in files.items():
                made.writestr(name, content)
        return path
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def read(path: Path, limits: ReadLimits | None = None) -> dict[str, bytes]:
    """What is read, by its name below the path."""
    contents = parts(str(path), io.BytesIO(), limits or ReadLimits())
    return {part.name.removeprefix(f"{path}").lstrip("/"): bytes(part.contents) for part in contents}


def test_of_a_directory_only_what_begins_as_objects_do_is_read(tmp_path: Path) -> None:
    contents = read(written(tmp_path))
    assert sorted(contents) == OBJECTS
    assert contents[OBJECTS[0]] == NODE


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_an_archive_is_read_as_the_directory_that_it_was(tmp_path: Path, mode: str) -> None:
    contents = read(archived(tmp_path / "bundle", mode))
    assert sorted(contents) == OBJECTS
    assert contents[OBJECTS[0]] == NODE


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
@pytest.mark.parametrize("is_below_a_directory", [True, False])
def test_a_compressed_file_is_read(
    tmp_path: Path, compress: Callable[[bytes], bytes], *, is_below_a_directory: bool
) -> None:
    file = tmp_path / "pods.json.z"
    file.write_bytes(compress(PODS))
    assert list(read(tmp_path if is_below_a_directory else file).values()) == [PODS]


def test_so_is_the_standard_input() -> None:
    [part] = parts("-", io.BytesIO(gzip.compress(PODS)))
    assert (part.name, bytes(part.contents)) == ("standard input", PODS)


def outside(folder: Path) -> None:
    (folder / "secret.json").write_bytes(PODS)
    (folder / "bundle/link.json").symlink_to(folder / "secret.json")


def folder_outside(folder: Path) -> None:
    written(folder / "elsewhere", {"secret.json": PODS})
    (folder / "bundle/link").symlink_to(folder / "elsewhere", target_is_directory=True)


def loop(folder: Path) -> None:
    (folder / "bundle/link").symlink_to(folder / "bundle", target_is_directory=True)


def dangling(folder: Path) -> None:
    (folder / "bundle/link.json").symlink_to(folder / "nothing")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "bundle/pipe.json")


@pytest.mark.parametrize("make", [outside, folder_outside, loop, dangling, pipe])
def test_no_link_and_no_special_file_of_a_directory_is_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    written(tmp_path / "bundle", {"pods.json": PODS})
    make(tmp_path)
    assert list(read(tmp_path / "bundle")) == ["pods.json"]


def linked(target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo("link.json")
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def sparse() -> tarfile.TarInfo:
    """A file of a terabyte that takes no room in the archive."""
    member = tarfile.TarInfo("sparse.json")
    member.type = tarfile.GNUTYPE_SPARSE
    return member


@pytest.mark.parametrize("member", [linked("/etc/passwd"), linked("pods.json"), sparse()], ids=["out", "in", "sparse"])
def test_nor_is_one_of_an_archive(tmp_path: Path, member: tarfile.TarInfo) -> None:
    path = archived(tmp_path / "bundle.tar", "w", {"pods.json": PODS})
    with tarfile.open(path, "a") as archive:
        archive.addfile(member)
    assert list(read(path)) == ["pods.json"]


BOUNDS = [
    pytest.param(ReadLimits(files=10), "has more than 10 files", id="files"),
    pytest.param(ReadLimits(object_bytes=100), "holds more than 100 bytes", id="objects"),
]


@pytest.mark.parametrize(("limits", "message"), BOUNDS)
@pytest.mark.parametrize("mode", ["", "w", "w:gz", "zip"])
def test_what_exceeds_a_bound_is_an_error(tmp_path: Path, limits: ReadLimits, message: str, mode: str) -> None:
    """A part of it would look like a cluster that lacks the rest."""
    path = archived(tmp_path / "bundle", mode) if mode else written(tmp_path)
    with pytest.raises(WhyError, match=message):
        read(path, limits)


def test_no_link_of_a_zip_file_is_read(tmp_path: Path) -> None:
    path = archived(tmp_path / "bundle.zip", "zip", {"pods.json": PODS})
    link = zipfile.ZipInfo("link.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, PODS)
    assert list(read(path)) == ["pods.json"]


@pytest.mark.parametrize("inner", ["logs", "tar"])
def test_so_is_a_file_that_becomes_too_large(tmp_path: Path, inner: str) -> None:
    path = tmp_path / "bomb.gz"
    content = {"pods/a.log": bytes(1 << 20)}
    path.write_bytes(gzip.compress(PODS + bytes(1 << 20)))
    if inner == "tar":
        archived(path, "w:gz", content)
    with pytest.raises(WhyError, match="holds more than 100,000 bytes"):
        read(path, ReadLimits(unpacked_bytes=100_000))


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz", "zip"])
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
def test_a_damaged_archive_is_an_error(tmp_path: Path, mode: str, kept: float) -> None:
    path = archived(tmp_path / "bundle", mode, {f"{number}.json": os.urandom(2000) for number in range(20)})
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(WhyError, match="damaged or incomplete"):
        read(path)
