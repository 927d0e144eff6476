"""The seed's example: lost is warn, the first failed reconnect is fail ("warn vs fail")."""

from __future__ import annotations

import pytest
from health_clocks import Clocks

from yaffle_health import Connection, Manager, Status, use
from yaffle_health.errors import BadOption

LOST = ("lost", "it broke")
RETRY = ("retry_failed", "refused")
UP = ("up",)


def play(connection: Connection, steps: list[tuple[str, ...]]) -> None:
    for name, *arguments in steps:
        getattr(connection, name)(*arguments)


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        pytest.param([UP], "pass", id="connected"),
        pytest.param([UP, LOST], "warn", id="lost: warn"),
        pytest.param([UP, LOST, RETRY], "fail", id="first failed reconnect: fail"),
        pytest.param([UP, LOST, RETRY, RETRY], "fail", id="and the second"),
        pytest.param([UP, LOST, RETRY, LOST], "fail", id="no way back to warn but over pass"),
        pytest.param([UP, LOST, LOST], "warn", id="lost twice is lost once"),
        pytest.param([UP, LOST, RETRY, UP], "pass", id="back"),
        pytest.param([UP, LOST, RETRY, UP, LOST], "warn", id="and lost again"),
        pytest.param([RETRY], "warn", id="never connected: the first failure is the first sign"),
        pytest.param([RETRY, RETRY], "fail", id="never connected, twice"),
    ],
)
def test_the_way_of_a_connection(steps: list[tuple[str, ...]], status: str) -> None:
    manager = Manager()
    play(Connection("bus", manager=manager), steps)
    assert manager.health().checks[0].status == status


def test_the_output_says_what_happened() -> None:
    manager = Manager()
    bus = Connection("bus", manager=manager, component_id="cell1", attempts=2)
    bus.lost(ConnectionResetError("amqp://u:hunter2@mq reset\nand more"))
    (check,) = manager.health().checks
    assert (check.component_id, check.status) == ("cell1", Status.WARN)
    assert check.output == "the connection is lost: ConnectionResetError: amqp://***@mq reset"
    bus.retry_failed("refused")
    assert manager.health().checks[0].status is Status.WARN
    bus.retry_failed("refused")
    (check,) = manager.health().checks
    assert (check.status, check.output) == (
        Status.FAIL,
        "the connection is lost, 2 attempts to reconnect failed: refused",
    )


def test_an_attempt_reports_what_came_of_it() -> None:
    manager = Manager()
    bus = Connection("bus", manager=manager)
    bus.lost("reset")
    error = OSError("refused")
    with pytest.raises(OSError, match="refused") as caught, bus.attempt():
        raise error
    assert caught.value is error
    assert manager.health().status is Status.FAIL
    with pytest.raises(KeyboardInterrupt), bus.attempt():
        raise KeyboardInterrupt
    assert "1 attempt to reconnect failed" in (manager.health().checks[0].output or "")
    with bus.attempt():
        pass
    assert manager.health().status is Status.PASS


def test_the_manager_is_found_when_something_happens() -> None:
    bus = Connection("bus", ttl_s=20)
    bus.up()
    clocks = Clocks()
    with use(clocks.manager(error_messages=False)) as manager:
        bus.lost(OSError("secret"))
        assert manager.health().checks[0].output == "the connection is lost: OSError"
        clocks.pass_by(21)
        assert manager.health().checks[0].expired


def test_attempts_that_cannot_be_meant() -> None:
    with pytest.raises(BadOption, match="attempts = 0"):
        Connection("bus", attempts=0)
