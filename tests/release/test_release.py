"""Archives, bill of materials, checksums and signatures of a release; making all of it is `make release`."""

import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_public_key,
)

from binder.reservation.contract import DEFAULT_PREFIX
from kube.configuration.document import API_VERSION
from release import bill, lock, plugin, provenance
from release.errors import ReleaseError
from release.source import PLACEHOLDERS, ROOT, Source, rename

PINS = list(lock.pins((ROOT / lock.LOCK).read_text()))
SOURCE = Source(ROOT, "0" * 40, 1_700_000_000, "https://git.example.com/pvc-prebinder", None)


def test_every_package_of_the_lock_is_read_with_its_hashes() -> None:
    names = {line.split("==")[0] for line in (ROOT / lock.LOCK).read_text().splitlines() if "==" in line[:60]}
    assert {pin.name for pin in PINS} == names
    assert all(pin.hashes for pin in PINS)


def test_the_marker_of_a_package_is_read() -> None:
    (marked,) = lock.pins("colorama==0.4 ; sys_platform == 'win32' \\\n    --hash=sha256:" + "0" * 64 + "\n")
    assert (marked.name, marked.marker) == ("colorama", "sys_platform == 'win32'")


def test_the_bill_has_what_the_image_contains_and_depends_on_the_commit_alone() -> None:
    document = json.loads(bill.bill_of_materials("0.1.0", SOURCE.revision, SOURCE.time, PINS))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert {each["purl"] for each in document["components"]} == {f"pkg:pypi/{pin.name}@{pin.version}" for pin in PINS}
    references = [each["bom-ref"] for each in document["components"]]
    assert document["dependencies"] == [{"ref": "pkg:pypi/pvc-prebinder@0.1.0", "dependsOn": references}]
    assert document["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert document == json.loads(bill.bill_of_materials("0.1.0", SOURCE.revision, SOURCE.time, PINS))
    assert document["serialNumber"] != json.loads(bill.bill_of_materials("0.1.0", "1" * 40, 0, PINS))["serialNumber"]


def test_the_plugin_needs_none_of_the_packages_that_its_archives_lack() -> None:
    modules = {"grpcio": "grpc", "protobuf": "google", "pydantic-core": "pydantic_core"}
    lacking = [modules.get(name, name) for name in sorted(plugin.NOT_NEEDED)]
    assert {pin.name for pin in PINS} >= plugin.NOT_NEEDED
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({lacking!r})); "
        "from prebinder.plugin import main; sys.argv[1:] = ['-f', '-', 'pod/web']; sys.exit(main())"
    )
    pod = (
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default", "uid": "u"}, '
        '"spec": {"containers": []}, "status": {"phase": "Pending"}}'
    )
    ended = subprocess.run([sys.executable, "-c", program], input=pod, capture_output=True, text=True, check=False)
    assert ended.returncode in {0, 3, 4}, ended.stderr
    assert "web" in ended.stdout


def test_an_archive_depends_on_its_content_alone(tmp_path: Path) -> None:
    for name in ("first", "second"):
        tree = tmp_path / name
        (tree / "packages").mkdir(parents=True)
        (tree / "packages" / "module.py").write_text("pass\n")
        os.utime(tree / "packages" / "module.py", (len(name), len(name)))
        plugin.pack(tree, tmp_path / f"{name}.tar.gz", SOURCE.time)
    assert provenance.digest(tmp_path / "first.tar.gz") == provenance.digest(tmp_path / "second.tar.gz")


def test_krews_manifest_names_each_platform_with_its_archive(tmp_path: Path) -> None:
    made = [tmp_path / f"kubectl-pvc_why_{system}_{processor}.tar.gz" for system, processor in plugin.PLATFORMS]
    for path in made:
        path.write_text(path.name)
    manifest = yaml.safe_load(plugin.manifest("0.1.0", SOURCE, made, "https://download.example.com"))
    assert (manifest["kind"], manifest["metadata"]["name"], manifest["spec"]["version"]) == (
        "Plugin",
        "pvc-why",
        "v0.1.0",
    )
    platforms = {tuple(each["selector"]["matchLabels"].values()): each for each in manifest["spec"]["platforms"]}
    assert platforms.keys() == plugin.PLATFORMS.keys()
    for path, each in zip(made, platforms.values(), strict=True):
        assert each["uri"] == f"https://download.example.com/{path.name}"
        assert each["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_sha256sum_and_the_statement_name_the_same_files(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("b.whl", "a.tgz")]
    for path in files:
        path.write_text(path.name)
    (tmp_path / "SHA256SUMS").write_text(provenance.sums(files))
    ended = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr
    statement = provenance.statement(SOURCE, files, {"domain": ""})
    assert {each["name"]: each["digest"]["sha256"] for each in statement["subject"]} == {
        path.name: provenance.digest(path) for path in files
    }
    dependency, _ = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert dependency["digest"] == {"gitCommit": SOURCE.revision}


def test_what_is_signed_can_be_verified_with_the_public_key(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    signer = provenance.Signer(key)
    public = load_pem_public_key(signer.public_key().encode())
    assert isinstance(public, EllipticCurvePublicKey)
    public.verify(base64.b64decode(signer.signature(b"sums")), b"sums", ECDSA(hashes.SHA256()))
    envelope = json.loads(signer.envelope(b"{}"))
    assert base64.b64decode(envelope["payload"]) == b"{}"
    signed = b"DSSEv1 28 application/vnd.in-toto+json 2 {}"
    public.verify(base64.b64decode(envelope["signatures"][0]["sig"]), signed, ECDSA(hashes.SHA256()))


def test_another_kind_of_key_is_rejected_with_what_is_expected(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("nothing")
    with pytest.raises(ReleaseError, match=r"expected an unencrypted private key in PEM form"):
        provenance.Signer(tmp_path / "key.pem")


def test_one_domain_replaces_annotation_prefix_group_and_addresses(tmp_path: Path) -> None:
    assert DEFAULT_PREFIX.rstrip("/") in PLACEHOLDERS
    assert API_VERSION.split("/")[0] in PLACEHOLDERS
    file = tmp_path / "file.yaml"
    file.write_text(f"{API_VERSION} {DEFAULT_PREFIX}gate https://pvc-prebinder.cloud.example/icon.svg")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    rename(tmp_path, "acme.example.com")
    assert file.read_text() == (
        "config.acme.example.com/v1alpha1 scheduler.acme.example.com/gate https://pvc-prebinder.acme.example.com/icon.svg"
    )
    assert (tmp_path / "picture.png").read_bytes() == b"\x89PNG\xff"
