"""The first afternoon of docs/afternoon.md, typed again."""

import asyncio

import pytest

from devcluster.cluster import DevCluster
from tests.e2e.afternoon.transcript import PAGE, STEPS, answers, form, transcript


@pytest.mark.timeout(1800)
async def test_each_command_of_the_afternoon_answers_as_the_page_says(real: DevCluster, emptied: None) -> None:
    await real.run_kubectl("label", "node", "--all", "--overwrite", "topology.kubernetes.io/zone=zone-b")
    try:
        typed = await asyncio.to_thread(transcript, real)
    finally:
        await real.run_kubectl("delete", "-f", "docs/examples/quickstart.yaml", "--ignore-not-found")
        await real.run_kubectl("label", "node", "--all", "topology.kubernetes.io/zone-")
    commands = [step.command for steps in STEPS.values() for step in steps]
    written = answers(PAGE.read_text(encoding="utf-8"))
    for command, answer, printed in zip(commands, written, answers(typed), strict=True):
        # Words, not lines: how a table is broken depends on the names of pods. A busy machine may have more to say.
        assert not set(form(answer).split()) - set(form(printed).split()), command
