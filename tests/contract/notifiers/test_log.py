"""The log notifier: one line a message, its topic as the event."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import structlog
from tests.contract.notifiers.clock import SetClock

from yaffle.drivers.notifiers.log import LogNotifier
from yaffle.errors import ConfigError
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext
from yaffle.ports.notifier import Message


@pytest.mark.parametrize(
    ("topic", "level"),
    [
        ("incident.opened", "warning"),
        ("incident.exhausted", "error"),
        ("incident.recovered", "info"),
        ("something.new", "info"),
    ],
)
def test_one_line_a_message(tmp_path: Path, topic: str, level: str) -> None:
    driver = LogNotifier(DriverContext(clock=SetClock(), state_dir=tmp_path))
    message = Message(
        id="1", topic=topic, at_us=7, body={"event": "x", "node": "n"}, attempt=2, sequence=2
    )
    with structlog.testing.capture_logs() as logs:
        assert asyncio.run(driver.send(message, deadline_s=1))[0] is Delivery.ACCEPTED
    assert logs == [
        {
            "event": topic,
            "log_level": level,
            "message_id": "1",
            "at_us": 7,
            "attempt": 2,
            "data": {"event": "x", "node": "n"},
        }
    ]


def test_unknown_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"notifiers\.log\.colour"):
        LogNotifier(DriverContext(clock=SetClock(), state_dir=tmp_path, settings={"colour": "red"}))
