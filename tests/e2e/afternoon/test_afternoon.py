"""The first afternoon of docs/afternoon.md, typed again."""

import asyncio

import pytest

from devcluster.cluster import DevCluster
from devcluster.node.files import ZONE
from tests.e2e.afternoon.transcript import (
    PAGE,
    ROOT,
    STEPS,
    ZONE_LABEL,
    ZONE_OF_EXAMPLE,
    answers,
    form,
    transcript,
)
from tests.e2e.installation import SECONDS
from tests.scenarios.processes.controller import SYSTEM


@pytest.mark.timeout(1800)
async def test_each_command_of_the_afternoon_answers_as_the_page_says(real: DevCluster, emptied: None) -> None:
    await real.run_kubectl("label", "node", "--all", "--overwrite", f"{ZONE_LABEL}={ZONE_OF_EXAMPLE}")
    try:
        typed = await asyncio.to_thread(transcript, real)
    finally:
        await real.run_kubectl("delete", "-f", str(ROOT / "docs/examples/quickstart.yaml"), "--ignore-not-found")
        # Helm leaves the namespace, by which other stories tell whether anything is installed.
        await real.run_kubectl("delete", "namespace", SYSTEM, "--ignore-not-found", f"--timeout={SECONDS:.0f}s")
        await real.run_kubectl("label", "node", "--all", "--overwrite", f"{ZONE_LABEL}={ZONE}")
    commands = [step.command for steps in STEPS.values() for step in steps]
    written = answers(PAGE.read_text(encoding="utf-8"))
    for command, answer, printed in zip(commands, written, answers(typed), strict=True):
        # Words, not lines: how a table is broken depends on the names of pods. A busy machine may have more to say.
        assert not set(form(answer).split()) - set(form(printed).split()), command
