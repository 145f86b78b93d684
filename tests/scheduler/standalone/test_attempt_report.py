import logging

import pytest

from binder.matching.rejection import Reason
from scheduler.standalone.attempt_report import AttemptReport
from tests.scheduler.counted import CountedMetrics
from tests.scheduler.scheduler_in_memory import Events, Status, pod


def test_an_error_is_logged_once_because_without_rights_there_is_no_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    report = AttemptReport(Events(), Status(), CountedMetrics())
    with caplog.at_level(logging.WARNING):
        for text in ("binding rejected: 403 Forbidden", "binding rejected: 403 Forbidden", "another"):
            report.error(pod("web"), Reason.SCHEDULER_ERROR, text)
    logged = [(vars(record)["pod"], vars(record)["error"]) for record in caplog.records]
    assert logged == [("default/web", "binding rejected: 403 Forbidden"), ("default/web", "another")]
