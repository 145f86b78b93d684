"""A file that `head` has cut off between two lines is valid YAML, and still no smaller cluster."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.why.documents import (
    BOUND,
    DRIVER,
    INSTALLED,
    NAMESPACE,
    NOW,
    SYSTEM_POD,
    Document,
    claim,
    event,
    node,
    pod,
    storage_class,
    volume,
)
from why.errors import WhyError
from why.explain.answering import report_on
from why.explain.targets import parse_target
from why.facts.facts import Source
from why.reading.cut_short import lost_end
from why.reading.dump import Dump, read_dump

CLUSTER: Final = [
    claim(volume="pv-1"),
    volume(claim="data", zone="a"),
    storage_class(provisioner=DRIVER),
    *INSTALLED,
    node("a1", "a", cordoned=True),
    node("b1", "b"),
    SYSTEM_POD,
    event("Pod", "db-0", "FailedScheduling", "0/2 nodes are available.", reporter="default-scheduler"),
    pod("db-0", "data"),
]
WHOLE: Final = "TopologyConflict"


def as_kubectl_prints(*documents: Document) -> str:
    """One list, its keys sorted: its kind comes after the items."""
    return yaml.safe_dump({"apiVersion": "v1", "items": list(documents), "kind": "List", "metadata": {}})


def one_after_another(*documents: Document) -> str:
    return yaml.safe_dump_all(documents)


def read(tmp_path: Path, text: str) -> Dump:
    path = tmp_path / "dump.yaml"
    path.write_text(text)
    return read_dump([str(path)], BytesIO(), NOW)


def answers_to_what_head_left(tmp_path: Path, text: str) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yield what is answered after each line, where the file can be read and has the pod.

    Between two documents nothing shows that others followed.
    """
    lines = text.splitlines(keepends=True)
    for count in range(1, len(lines)):
        if "---\n" in lines[count - 1 : count + 1]:
            continue
        try:
            dump = read(tmp_path, "".join(lines[:count]))
            (item,) = report_on(dump.facts, (parse_target("pod/db-0"),), NAMESPACE).items
        except WhyError:
            continue
        yield count, item.code, item.next


@pytest.mark.parametrize("form", [as_kubectl_prints, one_after_another])
@pytest.mark.parametrize("turned", range(0, len(CLUSTER), 2))
def test_after_each_line_the_answer_is_that_to_the_whole_or_inconclusive(
    tmp_path: Path, form: object, turned: int
) -> None:
    assert callable(form)
    text = form(*CLUSTER[turned:], *CLUSTER[:turned])
    for count, code, commands in answers_to_what_head_left(tmp_path, text):
        assert code in {WHOLE, "Inconclusive"}, (count, code)
        assert not any("delete" in command for command in commands)


def test_the_file_is_named_and_what_counts_as_not_read(tmp_path: Path) -> None:
    text = as_kubectl_prints(*CLUSTER)
    dump = read(tmp_path, text[: text.index("  kind: PersistentVolume\n")])
    assert list(dump.faults) == [
        f"{tmp_path}/dump.yaml: the file ends too early: a list without the kind that kubectl writes after its items"
    ]
    assert Source.CLAIMS in dump.facts.skipped


def test_an_object_without_its_end_is_named(tmp_path: Path) -> None:
    text = one_after_another(claim(), volume(claim="data"))
    dump = read(tmp_path, text[: text.rindex("status:")])
    assert "the file ends too early: PersistentVolume pv-1 has no status.phase" in dump.faults[0]
    assert Source.VOLUMES in dump.facts.skipped


@pytest.mark.parametrize("document", [*CLUSTER, *BOUND], ids=lambda document: document["kind"])
def test_a_whole_object_has_its_end(document: Document) -> None:
    assert lost_end(document) == ""


def test_a_manifest_may_be_incomplete() -> None:
    manifest = claim()
    del manifest["metadata"]["creationTimestamp"], manifest["status"]
    assert lost_end(manifest) == ""
