"""The Python example of docs/scheduler-control.md, run as it stands there."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from scheduler.binding.pod_binding import Bound, Rejected, RejectionReason
from tests.prebinder.control_port import LOOPBACK, Scripted, controlled

DOCUMENT = Path(__file__).parents[3] / "docs" / "scheduler-control.md"


def example() -> str:
    (source,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return str(source)


@pytest.mark.parametrize(
    ("answer", "code", "printed"),
    [
        pytest.param(
            Bound("n1", "a", {"data": "pv-1"}), 0, "default/web-0 is on n1 with {'data': 'pv-1'}\n", id="bound"
        ),
        pytest.param(Rejected(RejectionReason.REJECTED, "no node fits"), 1, "-32005: no node fits\n", id="rejected"),
    ],
)
async def test_the_example_places_a_pod(answer: Bound | Rejected, code: int, printed: str, tmp_path: Path) -> None:
    binding = Scripted(answer)
    async with controlled(tmp_path, binding) as control:
        arguments = [f"http://{LOOPBACK}:{control.port}", str(tmp_path / "token"), "default", "web-0"]
        run = await asyncio.create_subprocess_exec(
            sys.executable, "-c", example(), *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await run.communicate()
    assert (run.returncode, (out + err).decode()) == (code, printed)
    assert binding.calls == [("bind", "default/web-0", "", "")]


def test_the_example_stays_short() -> None:
    assert len(example().strip().splitlines()) <= 15
