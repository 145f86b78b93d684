"""The command `why` as a whole, from files to what is printed and the exit code."""

import json
from pathlib import Path

import pytest

from prebinder.cli import main
from tests.prebinder.dump_file import write_dump
from tests.prebinder.why.documents import Document, claim, event, node, pod, storage_class, volume

PENDING = [
    pod("db-0", "data"),
    claim(volume="pv-1"),
    volume(claim="data", zone="a"),
    storage_class(),
    node("a1", "a", cordoned=True),
    node("b1", "b"),
]
WAITING = [claim(), storage_class(), volume()]


def test_one_block_with_cause_chain_evidence_and_next_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "pod/db-0", "-n", "web", "-f", write_dump(tmp_path, PENDING)]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("✗ pod web/db-0 Pending ")
    assert lines[0].endswith(" · TopologyConflict")
    assert "  db-0 → claim data (Bound) → pv-1, zone a" in lines
    assert "  a: 0 of 1 node usable: 1 cordoned" in lines
    assert "  Next: kubectl uncordon a1   (nodes in b cannot help)" in lines


def test_json_has_a_version_and_the_fields_of_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "-n", "web", "-f", write_dump(tmp_path, PENDING), "-o", "json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert (report["apiVersion"], report["kind"]) == ("pvc-prebinder/v1alpha1", "WhyReport")
    (item,) = report["items"]
    assert {key: item[key] for key in ("kind", "namespace", "name", "code", "problem", "next")} == {
        "kind": "Pod",
        "namespace": "web",
        "name": "db-0",
        "code": "TopologyConflict",
        "problem": True,
        "next": ["kubectl uncordon a1"],
    }
    assert item["causes"][0] == {"kind": "Pod", "name": "web/db-0", "says": "Pending"}
    assert item["evidence"][0] == {"object": "a", "wanted": "", "found": "0 of 1 node usable: 1 cordoned"}
    assert {"resource": "volumeattachments", "because": "not in the input"} in item["skipped"]


def test_names_are_those_of_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "-n", "web", "-f", write_dump(tmp_path, [*PENDING, claim("idle")]), "-o", "name"]) == 3
    assert capsys.readouterr().out == "pod/db-0\n"


def test_names_of_several_namespaces_have_theirs_before_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a claim that was never created is no name for kubectl."""
    forbidden = 'persistentvolumeclaims "data-db-0" is forbidden: exceeded quota: small, requested: x=1'
    refused = event("StatefulSet", "db", "FailedCreate", forbidden)
    path = write_dump(tmp_path, [*PENDING, refused])
    assert main(["why", "-A", "-f", path, "-o", "name"]) == 3
    assert capsys.readouterr().out == "-n web pod/db-0\n"


def test_an_object_that_cannot_be_read_may_be_pending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "-A", "-f", write_dump(tmp_path, [{"apiVersion": "v1", "kind": "Pod"}])]) == 4
    assert "metadata.name" in capsys.readouterr().err


def test_a_server_that_cannot_be_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one sentence without the words of a library."""
    user: Document = {"name": "u", "user": {"token": "t"}}
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    config = {"current-context": "x", "contexts": [context], "clusters": [cluster], "users": [user]}
    path = tmp_path / "config"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config}))
    assert main(["why", "--kubeconfig", str(path)]) == 1
    assert capsys.readouterr().err.startswith(
        "pvc-prebinder: no answer from http://127.0.0.1:1: Connection refused; is"
    )


def test_waiting_as_it_should_is_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "data", "-n", "web", "-f", write_dump(tmp_path, WAITING)]) == 0
    assert "WaitForFirstConsumer" in capsys.readouterr().out


def test_a_lone_claim_is_inconclusive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "pvc/data", "-n", "web", "-f", write_dump(tmp_path, [claim()])]) == 4
    assert "storageclasses (not in the input)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        pytest.param(["pvc/nix"], 1, 'there is no PersistentVolumeClaim "nix" in namespace web', id="no such object"),
        pytest.param(["pvc/data", "-n", "shop"], 1, "in namespace shop; try --namespace web", id="another namespace"),
        pytest.param(["deploy/x"], 2, 'expected pod/NAME, pvc/NAME, pv/NAME or NAME, found "deploy/x"', id="kind"),
        pytest.param(["-o", "xml"], 2, "expected text, wide, json, yaml, name", id="form"),
        pytest.param(["-A", "pvc/data"], 2, "omit the names", id="all and one"),
    ],
)
def test_faults_are_one_line(
    tmp_path: Path, arguments: list[str], code: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", "-n", "web", *arguments, "-f", write_dump(tmp_path, WAITING)]) == code
    assert complaint in capsys.readouterr().err


def test_all_namespaces_are_one_line_for_each_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = [*PENDING, claim("idle"), *(claim(f"typo-{number}", storage_class="fsat") for number in range(12))]
    assert main(["why", "-A", "-f", write_dump(tmp_path, documents)]) == 3
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert lines[0] == ["ROOT", "CAUSE", "CLAIMS", "OLDEST", "EXAMPLE", "NEXT"]
    assert [line[:2] for line in lines[1:]] == [
        ["StorageClassNotFound", "12"],
        ["TopologyConflict", "1"],
        ["WaitForFirstConsumer", "○"],
    ]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=web", ["one"]),
        ("app!=web", ["two", "three"]),
        ("app in (web, db)", ["one", "two"]),
        ("app", ["one", "two"]),
        ("!app", ["three"]),
    ],
)
def test_a_selector_chooses_what_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], selector: str, names: list[str]
) -> None:
    labelled = {"one": {"app": "web"}, "two": {"app": "db"}, "three": {}}
    documents = [claim(name, metadata={"labels": labels}) for name, labels in labelled.items()]
    path = write_dump(tmp_path, [*documents, storage_class(), volume()])
    assert main(["why", "-n", "web", "-l", selector, "-f", path, "-o", "json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert {item["name"] for item in items} == set(names)


def test_why_answers_about_a_volume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_dump(tmp_path, [volume("old", claim="gone", phase="Released"), volume("free")])
    assert main(["why", "pv/old", "-f", path]) == 3
    printed = capsys.readouterr().out
    assert "it holds the data of claim web/gone, which was deleted" in printed
    assert "old, Released → claim web/gone (deleted)" in printed
    assert main(["why", "pv/free", "-f", path]) == 0
    assert "Available: no claim is bound to it." in capsys.readouterr().out


def test_no_word_is_broken_at_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_dump(tmp_path, [*PENDING, claim("typo", storage_class="fsat")])
    assert main(["why", "-n", "web", "-f", path]) == 3
    words = set(capsys.readouterr().out.split())
    assert {"TopologyConflict", "StorageClassNotFound", "spec.nodeAffinity:", "(nodes"} <= words


def test_colours_only_where_they_are_requested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_dump(tmp_path, PENDING)
    main(["why", "-n", "web", "-f", path])
    assert "\x1b[" not in capsys.readouterr().out
    main(["why", "-n", "web", "-f", path, "--color", "always"])
    assert "\x1b[" in capsys.readouterr().out
