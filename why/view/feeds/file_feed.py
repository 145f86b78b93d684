"""A view of a file: it stays as it is."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime

from why.explain.answering import report_on
from why.explain.targets import Target
from why.facts.facts import Facts
from why.report.report import WhyReport
from why.view.feeds.publisher import Caller, Message, Publisher
from why.view.model.view_builder import ViewBuilder
from why.view.model.waiting import causes_of


class FileFeed:
    """Answers from facts that were read from files; the caller's token does not matter."""

    def __init__(self, facts: Facts, source: str, namespace: str = "") -> None:
        """`namespace` limits what is shown as pending, as `why -n` does."""
        self._facts = facts
        self._publisher = Publisher()
        builder = ViewBuilder(source, facts.annotations, live=False)
        causes = causes_of(facts, report_on(facts, (), namespace))
        unreadable = {str(resource): because for resource, because in facts.skipped.items()}
        self._publisher.publish(builder.view(facts, causes, unreadable))

    def following(self, caller: Caller) -> AbstractAsyncContextManager[AsyncIterator[Message]]:  # noqa: ARG002
        return self._publisher.following()

    async def explain(self, target: Target, caller: Caller) -> tuple[WhyReport, datetime]:  # noqa: ARG002
        return report_on(self._facts, (target,), target.namespace), self._facts.now
