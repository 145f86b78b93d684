"""What a dry run says of pods, without a cluster."""

import asyncio
from collections.abc import Sequence

import pytest

from binder.matching.rejection import Reason
from binder.model.decision import Finish, Mode, Placement, Reject, Reserve
from prebinder.controller.dry_run_report import FIRST_PASS_SECONDS, DryRunReport, Pass, summary, would_reserve
from tests.binder.world import Sink
from tests.builders import claim, pod, volume
from tests.fake_clock import FakeClock, settle

DB = pod("db-0", namespace="shop", claims=["data", "log"])
PAIRS = (Placement(claim("data"), volume("b-data")), Placement(claim("log"), volume("b-log")))


def reserve(mode: Mode = Mode.PREBIND, zone: str = "zone-b", limits: Sequence[str] = ()) -> Reserve:
    return Reserve(DB, mode, zone, "n1", (), PAIRS, tuple(limits))


def reject(name: str, reason: Reason = Reason.NO_VOLUME_FITS) -> Reject:
    return Reject(pod(name, namespace="shop"), reason, ())


@pytest.mark.parametrize(
    ("decision", "line"),
    [
        (reserve(), "would bind shop/db-0 in zone-b: data → b-data, log → b-log"),
        (reserve(Mode.ANNOTATE, ""), "would reserve for shop/db-0: data → b-data, log → b-log"),
        (
            reserve(Mode.ANNOTATE, "", ["spec.resourceClaims"]),
            "would reserve for shop/db-0: data → b-data, log → b-log (only a hint: spec.resourceClaims)",
        ),
        (Finish(DB, PAIRS), "would finish the bind of shop/db-0: data → b-data, log → b-log"),
    ],
    ids=["prebind", "annotate without zones", "hint", "finish"],
)
def test_one_line_names_the_pod_its_zone_and_its_volumes(decision: Reserve | Finish, line: str) -> None:
    assert would_reserve(decision) == line


def test_the_summary_counts_each_cause_and_gives_an_example_with_the_next_step() -> None:
    rejected = [reject("b"), reject("a"), reject("c", Reason.NO_NODE_FITS)]
    left = {"shop/d": Reason.DYNAMIC_CLASS, "shop/e": Reason.DYNAMIC_CLASS, "shop/f": Reason.PROGRESSING}
    assert summary(1, rejected, ["shop/f"], left) == [
        "1 pod would get volumes, 3 would not.",
        "  2 StaticOnlyNoMatch, such as shop/a. Add a volume that fits, or change the claim.",
        "  1 NoNodeFits, such as shop/c. Add or free up a node that fits the pod and from which the volumes are"
        " accessible.",
        "  1 not decided yet, since kube-scheduler may place them: shop/f",
        "  2 pods left alone: DynamicClass, such as shop/d",
        "For all evidence: pvc-prebinder why pod/a -n shop",
        "Nothing was written.",
    ]


async def test_after_the_first_pass_only_what_changes_is_reported_and_no_event_is_published() -> None:
    sink, lines = Sink(), list[str]()
    report = DryRunReport(sink, FakeClock(), lines.append)
    report.reserved(reserve())
    report.rejected(reject("web"), ())
    assert lines == ["would bind shop/db-0 in zone-b: data → b-data, log → b-log"]
    assert not await report.first_pass(lambda: Pass({"shop/db-0": Reason.ALREADY_RESERVED}, ()))
    del lines[:]
    report.reserved(reserve())
    report.rejected(reject("web"), ())
    assert lines == []
    report.rejected(reject("web", Reason.UNHEALTHY), ())
    report.rejected(reject("web", Reason.UNHEALTHY), ())
    assert lines == ["no volumes for shop/web: Unhealthy: Repair the volume or add a healthy one."]
    assert sink.events == []


async def test_the_first_pass_waits_for_undecided_pods_but_not_for_ever() -> None:
    clock, lines = FakeClock(), list[str]()
    report = DryRunReport(Sink(), clock, lines.append)
    passing = asyncio.create_task(report.first_pass(lambda: Pass({}, ["shop/slow"])))
    await settle()
    assert lines == []
    await clock.advance(FIRST_PASS_SECONDS + 1)
    assert not await passing
    assert lines[1] == "  1 not decided yet, since kube-scheduler may place them: shop/slow"
