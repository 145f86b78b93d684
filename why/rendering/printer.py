"""Prints reports in the requested format, one after another with --watch."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from rich.console import Console

from binder.matching.rejection import Reason
from why.facts.facts import ABSENT, FORBIDDEN
from why.rendering.documents import as_json, as_names, as_yaml
from why.rendering.overview import print_overview
from why.rendering.tables import plain
from why.rendering.text import print_report
from why.report.report import WhyReport

_SETTLED: Final = frozenset({Reason.BOUND, Reason.SCHEDULED, Reason.AVAILABLE})
_MAX_EXPLAINED: Final = 3
"""Codes that one command explains: more of them would be pages to read."""


@dataclass(slots=True)
class Printer:
    """Prints to the standard output. `overview` is one line for each cause instead of a block for each object.

    `namespace` is the only one that is reported on, if it is only one; `chosen` whether only objects with some labels,
    or the pods of workloads are: of those with an equal cause one is explained, and the others are named.
    `with_namespaces`: objects of several namespaces may be among them, so each name comes with its own.
    `explain` is the command, after which codes are named. `template` renders a report for the output `jsonpath`.
    """

    output: str
    console: Console
    overview: bool
    with_namespaces: bool = False
    namespace: str = ""
    chosen: bool = False
    explain: str = "pvc-prebinder explain"
    headers: bool = True
    template: Callable[[WhyReport], str] | None = None
    _printed: WhyReport | None = None

    def print(self, report: WhyReport, now: datetime, *, again: bool = False) -> None:
        """Print a report; a repeated one (`again`) in place on a terminal, elsewhere only if it differs from the
        last.
        """
        on_terminal = again and self.console.is_terminal and self.output in {"text", "wide"}
        if again and not on_terminal and report == self._printed:
            return
        if on_terminal and self._printed is not None:
            self.console.clear()
        self._printed = report
        names = partial(as_names, with_namespaces=self.with_namespaces)
        documents: Mapping[str, Callable[[WhyReport], str]] = {"json": as_json, "yaml": as_yaml, "name": names}
        written = self.template or documents.get(self.output)
        if written is not None:
            text = written(report)
            sys.stdout.write(f"{text}\n" if text else "")
        else:
            self._print_text(report, now)
        sys.stdout.flush()

    def _print_text(self, report: WhyReport, now: datetime) -> None:
        if not report.items:
            if report.complete:
                self.console.print(plain(self._nothing), soft_wrap=True)
        elif self.overview and self.output == "text":
            print_overview(report, self.console, now, headers=self.headers)
        else:
            print_report(report, self.console, now, wide=self.output == "wide", grouped=self.chosen)
        if not report.complete:
            what = "what else" if report.items else "what"
            missing = ", ".join(f"{each.resource} ({each.because})" for each in report.skipped)
            unknown = f"? Cannot tell {what} is pending without {missing}{self._hint(report)}"
            self.console.print(plain(unknown), soft_wrap=True)
        codes = _to_explain(report)
        if codes and self.headers:
            self.console.print(plain(f"Explain: {' '.join((self.explain, *codes))}"), soft_wrap=True)

    @property
    def _nothing(self) -> str:
        """Return that nothing is pending, and where that is true."""
        labels = " with these labels" if self.chosen else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        elsewhere = "; --all-namespaces looks everywhere" if self.namespace else ""
        return f"Nothing{labels} is pending{where}{elsewhere}."

    def _hint(self, report: WhyReport) -> str:
        absent = [each.resource for each in report.skipped if each.because == ABSENT]
        if absent:
            return f"; add them by a further -f: kubectl get {','.join(absent)} -A -o json"
        is_forbidden = any(each.because == FORBIDDEN for each in report.skipped)
        return "; --namespace limits the report to a single namespace." if self.overview and is_forbidden else "."


def _to_explain(report: WhyReport) -> Sequence[str]:
    """Return the codes of what is not settled, those of problems first."""
    items = sorted(report.items, key=lambda item: not item.problem)
    codes = dict.fromkeys(str(item.code) for item in items if item.code not in _SETTLED)
    return list(codes)[:_MAX_EXPLAINED]
