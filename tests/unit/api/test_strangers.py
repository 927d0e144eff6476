"""What anybody can have written into the log is bounded, and what is left out is counted."""

from __future__ import annotations

from structlog.testing import capture_logs

from yaffle.api.middleware.request_log import STRANGERS_MAX, Strangers


def test_lines_that_anybody_can_cause_are_few_a_second() -> None:
    now = [100.0]
    strangers = Strangers(lambda: now[0])
    with capture_logs() as lines:
        assert sum(strangers.admit() for _ in range(1000)) == STRANGERS_MAX
        now[0] += 1
        assert strangers.admit()
    assert [(line["event"], line["count"]) for line in lines] == [
        ("refusals not logged", 1000 - STRANGERS_MAX)
    ]
