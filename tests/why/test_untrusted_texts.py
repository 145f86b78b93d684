"""What others wrote into names and Events: one word in a command, and harmless on a terminal."""

from pathlib import Path

import pytest

from prebinder.cli import main
from tests.prebinder.dump_file import write_dump
from tests.why.documents import (
    BOUND,
    DRIVER,
    SCHEDULED,
    Document,
    claim,
    csi_node,
    driver,
    event,
    node,
    pod,
    storage_class,
    volume,
    why,
)

MADE = [storage_class(provisioner=DRIVER, mode="Immediate"), driver(), csi_node("n1", DRIVER)]
QUOTA = 'persistentvolumeclaims "data-0" is forbidden: exceeded quota: x;y, requested: requests.storage=10Gi'


@pytest.mark.parametrize(
    ("target", "documents"),
    [
        ("pod/db-0", [pod("db-0", spec={"schedulerName": "x; reboot"}, status={"conditions": []}), SCHEDULED]),
        ("pvc/data", [claim(status={"phase": "Lost"}, spec={"volumeName": "x; reboot"}), volume("x; reboot")]),
        (
            "pvc/data-0",
            [event("StatefulSet", "db", "FailedCreate", QUOTA)],
        ),
        (
            "pvc/data",
            [
                claim(spec={"dataSourceRef": {"apiGroup": "x.io", "kind": "x; reboot", "name": "a"}}),
                *MADE,
            ],
        ),
    ],
    ids=["scheduler", "volume", "quota", "populator"],
)
def test_what_others_wrote_is_one_word_in_a_command(target: str, documents: list[Document]) -> None:
    item = why(target, *documents)
    assert item.problem
    assert not any("; reboot" in command.replace("'x; reboot'", "") for command in item.next)
    assert not any("x;y" in command.replace("'x;y'", "") for command in item.next)


def test_nothing_that_others_wrote_acts_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = event(
        "Pod", "db-0", "FailedScheduling", 'running PreBind plugin "VolumeBinding": \x1b[2J\x1b]0;title\x07 \u202e'
    )
    path = write_dump(tmp_path, [pod("db-0", "data"), *BOUND, node("a1"), hostile])
    assert main(["why", "-n", "web", "-f", path]) == 3
    printed = capsys.readouterr().out
    assert "\\x1b[2J" in printed
    assert not {"\x1b", "\x07", "\u202e"} & set(printed)
