"""`why --match`, by its alias `match`: from files to a report and an exit code."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from prebinder.cli import main
from tests.builders import ZONE
from why.match.claim_report import HEADER

RWO = ["ReadWriteOnce"]

Run = Callable[..., tuple[int, str, str]]
"""Objects and flags in; exit code, standard output and standard error out."""


def volume(name: str, size: str, zone: str | None = None, **spec: object) -> dict[str, object]:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if zone else {}
    full = {"capacity": {"storage": size}, "accessModes": RWO, "storageClassName": "fast", **affinity, **spec}
    status = {"phase": "Available"}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": full, "status": status}


def claim(name: str, size: str, **spec: object) -> dict[str, object]:
    full = {"resources": {"requests": {"storage": size}}, "accessModes": RWO, "storageClassName": "fast", **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": full}


def storage_class(mode: str | None, provisioner: str = "kubernetes.io/no-provisioner") -> dict[str, object]:
    stated = {"volumeBindingMode": mode} if mode else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": provisioner,
        **stated,
    }


def node(name: str, zone: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {ZONE: zone}}}


def pod(name: str, *claims: str) -> dict[str, object]:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"volumes": volumes}}


@pytest.fixture
def match(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command on these objects."""

    def run(documents: list[object], *flags: str) -> tuple[int, str, str]:
        path = tmp_path / "objects.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
        code = main(["match", "-f", str(path), *flags])
        out, err = capsys.readouterr()
        return code, out, err

    return run


LATER = storage_class("WaitForFirstConsumer")


def test_the_json_report_is_this_and_nothing_else(match: Run) -> None:
    code, out, err = match(
        [volume("a", "20Gi"), claim("data", "5Gi"), volume("b", "10Gi"), claim("big", "1Ti")], "-o", "json"
    )
    assert json.loads(out) == {
        "apiVersion": "pvc-prebinder/v1alpha1",
        "kind": "MatchReport",
        "claims": [
            {
                "claim": "default/data",
                "node": None,
                "bindingMode": "Immediate",
                "volume": "b",
                "reason": None,
                "rejections": [
                    {"volume": "a", "reason": "LargerThanChosen", "wanted": "10Gi (b)", "offered": "20Gi"},
                ],
            },
            {
                "claim": "default/big",
                "node": None,
                "bindingMode": None,
                "volume": None,
                "reason": "StorageClassNotFound",
                "rejections": [
                    {"volume": "a", "reason": "TooSmall", "wanted": "at least 1Ti", "offered": "20Gi"},
                    {"volume": "b", "reason": "TooSmall", "wanted": "at least 1Ti", "offered": "10Gi"},
                ],
            },
        ],
    }
    assert out.encode().startswith(HEADER)
    assert (code, err) == (3, "")


def answers(out: str) -> dict[str, str | None]:
    return {row["claim"]: row["volume"] for row in json.loads(out)["claims"]}


def test_for_a_node_the_claims_of_a_pod_share_nothing_and_others_stand_alone(match: Run) -> None:
    objects = [
        LATER,
        node("n1", "a"),
        claim("large", "4Gi"),
        claim("small", "1Gi"),
        claim("alone", "1Gi"),
        pod("web", "large", "small", "unknown"),
        volume("p", "5Gi", "a"),
        volume("q", "6Gi", "a"),
        volume("r", "4Gi", "b"),
    ]
    code, out, _ = match(objects, "-o", "json", "--node", "n1")
    assert list(answers(out).items()) == [("default/large", "q"), ("default/small", "p"), ("default/alone", "p")]
    assert {row["node"] for row in json.loads(out)["claims"]} == {"n1"}
    assert code == 3  # The pod's third claim does not exist.


def test_a_finished_pod_decides_nothing(match: Run) -> None:
    done = {**pod("job", "x", "y"), "status": {"phase": "Succeeded"}}
    objects = [LATER, node("n1", "a"), claim("x", "1Gi"), claim("y", "1Gi"), done, volume("p", "5Gi")]
    assert answers(match(objects, "-o", "json", "--node", "n1")[1]) == {"default/x": "p", "default/y": "p"}


EXITS = [
    pytest.param([], 0, id="no claims"),
    pytest.param([claim("data", "1Gi"), volume("a", "1Gi")], 0, id="matched"),
    pytest.param([LATER, claim("data", "1Gi")], 0, id="waits for a pod"),
    pytest.param([storage_class("Immediate", "disk.csi.example"), claim("data", "1Gi")], 0, id="will be provisioned"),
    pytest.param([claim("data", "1Gi")], 3, id="nothing fits"),
    pytest.param([storage_class(None), claim("data", "1Gi"), volume("a", "1Gi")], 0, id="class without binding mode"),
    pytest.param([claim("data", "1Gi"), volume("a", "1Gi"), node("n", "a"), pod("web", "dtaa")], 3, id="no such claim"),
    pytest.param([claim("data", "1Gi", volumeName="b"), volume("a", "1Gi")], 3, id="the volume asked for is missing"),
    pytest.param([volume("a", "odd")], 3, id="an object that cannot be read"),
]


def test_a_claim_whose_class_is_missing_is_not_called_immediate(match: Run) -> None:
    code, out, _ = match([LATER, claim("data", "1Gi", storageClassName="fsat")], "-o", "json")
    (answer,) = json.loads(out)["claims"]
    assert (code, answer["bindingMode"], answer["reason"]) == (3, None, "StorageClassNotFound")
    _, out, _ = match([LATER, claim("data", "1Gi", storageClassName="fsat")])
    assert "no such class" in out
    assert "its StorageClass is not in the input, and no volume fits" in out


@pytest.mark.parametrize("output", ["json", "text"])
@pytest.mark.parametrize(("objects", "code"), EXITS)
def test_exit_codes(match: Run, objects: list[object], code: int, output: str) -> None:
    assert match(objects, "-o", output)[0] == code


def test_faults_and_duplicates_are_reported_beside_the_report(match: Run) -> None:
    _, out, err = match([volume("a", "odd"), volume("b", "1Gi"), volume("b", "2Gi")], "-o", "json")
    assert json.loads(out)["claims"] == []
    assert err.splitlines()[0].startswith("pvc-prebinder match: ")
    assert "PersistentVolume a: $.spec.capacity.storage: 'odd' is not a quantity" in err
    assert "b is in the input twice; the later one counts" in err


def test_the_alias_stands_for_why(match: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_alias = match([claim("data", "1Gi"), volume("a", "1Gi")])
    code = main(["why", "-f", str(tmp_path / "objects.json"), "--match"])
    assert (code, capsys.readouterr().out, "") == by_alias


def test_only_what_is_named_is_reported(match: Run) -> None:
    objects = [
        LATER,
        node("n1", "a"),
        claim("data", "1Gi"),
        claim("logs", "9Gi"),
        pod("web", "logs"),
        volume("a", "1Gi"),
    ]
    code, out, _ = match(objects, "-o", "json", "pvc/data", "--node", "n1")
    assert (code, answers(out)) == (0, {"default/data": "a"})
    assert "pods" not in json.loads(out)
    _, out, _ = match(objects, "-o", "json", "pod/web")
    assert (answers(out), [pod["pod"] for pod in json.loads(out)["pods"]]) == ({}, ["default/web"])
    assert answers(match(objects, "-o", "json", "-n", "other")[1]) == {}
    assert match(objects, "pv/a")[0] == 2


def test_a_node_that_is_not_in_the_input(match: Run) -> None:
    code, out, err = match([node(f"n{number}", "a") for number in range(12)], "--node", "x")
    assert (code, out) == (1, "")
    assert "no such Node in the input; it has n0, n1, n10, n11, n2, n3, n4, n5, n6, n7 and 2 more\n" in err
    assert "the input has no Node" in match([], "--node", "x")[2]


def test_the_table_groups_the_rejections_and_shows_the_nearest(match: Run) -> None:
    objects = [
        claim("data", "10Gi"),
        *(volume(f"pv-{size}", f"{size}Gi") for size in (1, 8, 9, 12, 30)),
        node("n", "a"),
    ]
    _, out, _ = match(objects)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "default/data fast 10Gi Immediate pv-12 12Gi the smallest that fits" in lines
    assert "default/data: why not the 4 other volumes" in lines
    assert "LargerThanChosen 1 pv-30 12Gi (pv-12) 30Gi" in lines
    assert "TooSmall 3 pv-9 at least 10Gi 9Gi" in lines
    assert lines.index("LargerThanChosen 1 pv-30 12Gi (pv-12) 30Gi") < lines.index("TooSmall 3 pv-9 at least 10Gi 9Gi")
    assert lines[-1].startswith("Read 5 PersistentVolume, 1 PersistentVolumeClaim")


@pytest.mark.parametrize(
    ("rival", "why"),
    [
        pytest.param(
            volume("pv-rival", "10Gi", accessModes=[*RWO, "ReadWriteMany"]),
            "the smallest that fits, of those with the fewest access modes",
            id="a smaller one with more access modes",
        ),
        pytest.param(
            volume("pv-rival", "30Gi", accessModes=[*RWO, "ReadWriteMany"]),
            "the smallest that fits",
            id="a larger one with more access modes",
        ),
        pytest.param(volume("pv-rival", "8Gi"), "the smallest that fits", id="one that is too small"),
    ],
)
def test_the_table_says_what_decided(match: Run, rival: dict[str, object], why: str) -> None:
    _, out, _ = match([claim("data", "10Gi"), volume("pv-12", "12Gi"), rival])
    (answer,) = (" ".join(line.split()) for line in out.splitlines() if line.startswith("default/data "))
    assert answer == f"default/data fast 10Gi Immediate pv-12 12Gi {why}"


def test_the_table_says_in_words_what_becomes_of_a_claim(match: Run) -> None:
    bound = claim("bound", "1Gi", volumeName="a")
    bound["metadata"] = {"name": "bound", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    objects = [
        volume("a", "1Gi"),
        volume("b", "1Gi", claimRef={"namespace": "default", "name": "mine"}),
        volume("[bold]c", "3Gi", phase="Bound"),
        bound,
        claim("named", "1Gi", volumeName="a"),
        claim("mine", "1Gi"),
        claim("lost", "9Gi"),
    ]
    _, out, _ = match(objects)
    words = {line.split()[0]: line for line in out.splitlines() if line.startswith("default/") and "fast" in line}
    assert words["default/bound"].rstrip().endswith("bound")
    assert words["default/named"].rstrip().endswith("requested by name")
    assert words["default/mine"].rstrip().endswith("reserved for it by its claimRef")
    assert words["default/lost"].rstrip().endswith("and no volume fits")
    assert "[bold]c" in out
