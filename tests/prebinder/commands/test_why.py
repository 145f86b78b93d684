"""The command `why` as a whole, from files to what is printed and the exit code."""

import json
from pathlib import Path

import pytest

from prebinder.cli import main
from tests.prebinder.dump_file import write_dump
from tests.why.documents import SYSTEM_POD, Document, claim, event, node, pod, storage_class, volume

PENDING = [
    pod("db-0", "data"),
    claim(volume="pv-1"),
    volume(claim="data", zone="a"),
    storage_class(),
    node("a1", "a", cordoned=True),
    node("b1", "b"),
]
WAITING = [claim(), storage_class(), volume(), SYSTEM_POD]


def test_one_block_with_cause_chain_evidence_and_next_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "pod/db-0", "-n", "web", "-f", write_dump(tmp_path, PENDING)]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("✗ pod web/db-0 Pending ")
    assert lines[0].endswith(" · TopologyConflict")
    assert "  db-0 → claim data (Bound) → pv-1, zone a" in lines
    assert "  a: 0 of 1 node usable: 1 cordoned" in lines
    assert "  Next: kubectl uncordon a1   (if its maintenance is over; nodes in b cannot help)" in lines


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
    rejected = event("StatefulSet", "db", "FailedCreate", forbidden)
    path = write_dump(tmp_path, [*PENDING, rejected])
    assert main(["why", "-A", "-f", path, "-o", "name"]) == 3
    assert capsys.readouterr().out == "-n web pod/db-0\n"


def test_an_object_that_cannot_be_read_may_be_pending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "-A", "-f", write_dump(tmp_path, [{"apiVersion": "v1", "kind": "Pod"}])]) == 4
    out, error = capsys.readouterr()
    assert "metadata.name" in error
    assert out.startswith("? Cannot tell what is pending without pods (damaged in the input)")
    assert "1 object (unreadable, see above)" in out


def test_an_object_that_cannot_be_read_is_named_by_its_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = {**event("Pod", "db-0", "Pulled", "pulled"), "lastTimestamp": "yesterday"}
    assert main(["why", "-A", "-f", write_dump(tmp_path, [*PENDING, broken])]) == 3
    assert "Event: Invalid RFC3339" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["pod", "db-0"], ["db-0"]),
        (["pvc", "data", "idle"], ["data", "idle"]),
        (["pod/db-0", "data"], ["db-0", "data"]),
        (["data", "db-0"], ["data", "db-0"]),
    ],
)
def test_a_kind_may_precede_its_names_as_for_kubectl(
    arguments: list[str], names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_dump(tmp_path, [*PENDING, claim("idle")])
    main(["why", *arguments, "-n", "web", "-o", "json", "-f", path])
    assert [item["name"] for item in json.loads(capsys.readouterr().out)["items"]] == names


def test_a_file_that_is_nested_too_deeply_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "deep.json"
    path.write_text('{"kind": "Pod", "metadata": ' + '{"a": ' * 500_000 + "1" + "}" * 500_001)
    assert main(["why", "-f", str(path)]) == 1
    assert "nested too deeply" in capsys.readouterr().err


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


def test_a_dump_without_anything_that_can_be_pending_is_inconclusive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_dump(tmp_path, [storage_class()])
    assert main(["why", "-A", "-f", path]) == 4
    missing = "pods (not in the input), persistentvolumeclaims (not in the input)"
    step = "add them by a further -f: kubectl get pods,persistentvolumeclaims -A -o json"
    assert capsys.readouterr().out == f"? Cannot tell what is pending without {missing}; {step}\n"
    assert main(["why", "-A", "-f", path, "-o", "json"]) == 4
    assert [each["resource"] for each in json.loads(capsys.readouterr().out)["skipped"]] == [
        "pods",
        "persistentvolumeclaims",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Nothing is pending."),
        (["-A"], "Nothing is pending."),
        (["-n", "shop"], "Nothing is pending in namespace shop; --all-namespaces looks everywhere."),
        (["-n", "web", "-l", "app=x"], "Nothing with these labels is pending in namespace web"),
    ],
)
def test_nothing_is_pending_where_it_was_looked(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", *arguments, "-f", write_dump(tmp_path, [pod(node="a1"), node("a1")])]) == 0
    assert capsys.readouterr().out.startswith(words)


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        pytest.param(["pvc/nix"], 1, 'there is no PersistentVolumeClaim "nix" in namespace web', id="no such object"),
        pytest.param(["pvc/data", "-n", "shop"], 1, "in namespace shop; try --namespace web", id="another namespace"),
        pytest.param(["ds/x"], 2, "expected pod/NAME, pvc/NAME, pv/NAME, statefulset/NAME, deployment/NAME", id="kind"),
        pytest.param(["-o", "xml"], 2, "expected text, wide, name, json, yaml, jsonpath=TEMPLATE", id="form"),
        pytest.param(["-A", "pvc/data"], 2, "omit the names", id="all and one"),
    ],
)
def test_faults_are_one_line(
    tmp_path: Path, arguments: list[str], code: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", "-n", "web", *arguments, "-f", write_dump(tmp_path, WAITING)]) == code
    assert complaint in capsys.readouterr().err


def test_a_bare_name_of_a_volume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "free", "-n", "web", "-f", write_dump(tmp_path, [claim(), volume("free")])]) == 1
    assert capsys.readouterr().err.endswith("in namespace web; try pv/free\n")


def test_a_volume_of_a_dump_without_volumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "pv/pv-1", "-f", write_dump(tmp_path, [claim()])]) == 1
    missing = 'there is no PersistentVolume "pv-1": persistentvolumes are not in the input'
    assert capsys.readouterr().err == f"pvc-prebinder: {missing}\n"


def test_all_namespaces_are_one_line_for_each_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = [*PENDING, claim("idle"), *(claim(f"typo-{number}", storage_class="fsat") for number in range(12))]
    assert main(["why", "-A", "-f", write_dump(tmp_path, documents)]) == 3
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert lines[0] == ["ROOT", "CAUSE", "OF", "CLAIMS", "OLDEST", "EXAMPLE", "NEXT"]
    assert [line[: 3 if line[1] == "-" else 4] for line in lines[1:-1]] == [
        ["StorageClassNotFound", "class", "fsat", "12"],
        ["TopologyConflict", "-", "1"],
        ["WaitForFirstConsumer", "○", "class", "fast"],
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
    path = write_dump(tmp_path, [*documents, storage_class(), volume(), SYSTEM_POD])
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
    assert {"TopologyConflict", "StorageClassNotFound", "spec.nodeAffinity:", "maintenance"} <= words


def test_colours_only_where_they_are_requested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_dump(tmp_path, PENDING)
    main(["why", "-n", "web", "-f", path])
    assert "\x1b[" not in capsys.readouterr().out
    main(["why", "-n", "web", "-f", path, "--color", "always"])
    assert "\x1b[" in capsys.readouterr().out
