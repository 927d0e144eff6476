"""Which errors make an item fail (pitfalls 8 and 10), and what of them is shown (pitfall 9)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sqlite3
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
from health_clocks import Clocks

from yaffle_health import Manager, Status, healthcheck, use


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def manager(clocks: Clocks) -> Iterator[Manager]:
    with use(clocks.manager()) as manager:
        yield manager


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def body() -> NoReturn:
        raise error

    return body


def outcome(manager: Manager, clocks: Clocks, check: healthcheck, error: BaseException) -> str:
    """fail, or `silent` if the error neither failed the item nor refreshed it."""
    manager.reset()
    with check:
        pass
    before = manager.health().checks[0]
    clocks.pass_by(10)
    with pytest.raises(type(error)) as caught:
        check(raising(error))()
    assert caught.value is error
    after = manager.health().checks[0]
    if after.status is Status.PASS:
        assert after.time == before.time, "an error refreshed the item"
        return "silent"
    return str(after.status)


NEVER = [
    asyncio.CancelledError(),
    concurrent.futures.CancelledError(),
    GeneratorExit(),
    KeyboardInterrupt(),
    SystemExit(1),
]


@pytest.mark.parametrize("error", NEVER, ids=lambda e: type(e).__module__ + "." + type(e).__name__)
@pytest.mark.parametrize("listed", [None, [Exception], [BaseException]])
def test_cancellation_and_exits_are_never_failures(
    error: BaseException, listed: list[type[BaseException]] | None, manager: Manager, clocks: Clocks
) -> None:
    assert outcome(manager, clocks, healthcheck("x", listed), error) == "silent"


def test_not_even_when_they_are_listed_themselves(manager: Manager, clocks: Clocks) -> None:
    for error in NEVER:
        assert outcome(manager, clocks, healthcheck("x", [type(error)]), error) == "silent"


def test_a_task_that_is_cancelled_says_nothing(manager: Manager) -> None:
    @healthcheck("x", [BaseException])
    async def forever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await forever()

    asyncio.run(main())
    assert manager.health().checks == ()


@pytest.mark.parametrize(
    ("listed", "ignored", "error", "expected"),
    [
        pytest.param(None, (), OSError(), "fail", id="no list: every Exception"),
        pytest.param(None, (), StopIteration(), "silent", id="but the end of an iteration"),
        pytest.param(None, (), StopAsyncIteration(), "silent", id="of both kinds"),
        pytest.param([StopIteration], (), StopIteration(), "fail", id="unless it is listed"),
        pytest.param([OSError], (), ConnectionError(), "fail", id="a subclass of a listed one"),
        pytest.param(OSError, (), OSError(), "fail", id="a class is a list of one"),
        pytest.param((e for e in [OSError]), (), OSError(), "fail", id="any iterable"),
        pytest.param([OSError], (), ValueError(), "silent", id="an error not listed"),
        pytest.param([], (), OSError(), "silent", id="an empty list"),
        pytest.param(None, [LookupError], KeyError(), "silent", id="an error to ignore"),
        pytest.param(
            [OSError], FileNotFoundError, FileNotFoundError(), "silent", id="of listed ones"
        ),
    ],
)
def test_what_counts(
    listed: object,
    ignored: object,
    error: BaseException,
    expected: str,
    manager: Manager,
    clocks: Clocks,
) -> None:
    check = healthcheck("x", listed, ignore=ignored)  # type: ignore[arg-type]
    assert outcome(manager, clocks, check, error) == expected


def group(*errors: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("several", errors)


@pytest.mark.parametrize(
    ("listed", "error", "shown"),
    [
        pytest.param([OSError], group(KeyError(1), group(OSError("a"))), "OSError: a", id="within"),
        pytest.param([OSError], group(KeyError(1)), None, id="none of the listed"),
        pytest.param(
            None, group(KeyError("k"), OSError()), "KeyError: 'k'", id="no list: the first"
        ),
        pytest.param(None, group(StopIteration()), None, id="ends alone"),
        pytest.param([ExceptionGroup], group(KeyError()), "several", id="groups are listed"),
        pytest.param(
            [OSError],
            BaseExceptionGroup("b", [OSError("a"), KeyboardInterrupt()]),
            None,
            id="an exit among them",
        ),
    ],
)
def test_groups_of_errors_are_looked_into(
    listed: list[type[BaseException]] | None,
    error: BaseException,
    shown: str | None,
    manager: Manager,
) -> None:
    with pytest.raises(type(error)) as caught:
        healthcheck("x", listed)(raising(error))()
    assert caught.value is error
    checks = manager.health().checks
    assert bool(checks) == (shown is not None)
    if shown:
        assert shown in (checks[0].output or "")


# --- What is shown -------------------------------------------------------------------------------


def test_the_output_is_the_type_and_the_first_line_without_secrets(manager: Manager) -> None:
    error = sqlite3.OperationalError(
        "cannot reach mysql+pymysql://nova:hunter2@db/nova, password=hunter2\n[SQL: SELECT hunter2]"
    )
    with pytest.raises(sqlite3.OperationalError):
        healthcheck("db")(raising(error))()
    output = manager.health().checks[0].output
    assert output == "OperationalError: cannot reach mysql+pymysql://***@db/nova, password=***"


def test_a_service_may_show_class_names_alone(clocks: Clocks) -> None:
    with use(clocks.manager(error_messages=False)) as manager:
        with pytest.raises(OSError, match="secret"):
            healthcheck("db")(raising(OSError("secret")))()
        assert manager.health().checks[0].output == "OSError"


class Unprintable(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("not even this")


def test_an_error_that_cannot_be_printed_fails_all_the_same(manager: Manager) -> None:
    with pytest.raises(Unprintable):
        healthcheck("x")(raising(Unprintable()))()
    assert manager.health().checks[0].output == "Unprintable"


def test_no_error_is_kept_alive(manager: Manager) -> None:
    """An error holds its traceback, that holds frames, those hold sessions and buffers."""
    error = OSError("x")
    with pytest.raises(OSError, match="x"):
        healthcheck("x")(raising(error))()
    error.__traceback__ = None
    held = sys.getrefcount(error)
    manager.reset()
    assert sys.getrefcount(error) == held


# --- Several functions of one name (pitfall 10) --------------------------------------------------


def pair(sticky: bool) -> tuple[Callable[[bool], None], Callable[[], None]]:
    @healthcheck("db", [OSError], sticky=sticky)
    def write(works: bool) -> None:
        if not works:
            raise OSError("read-only")

    @healthcheck("db", [OSError], sticky=sticky)
    def read() -> None:
        return None

    return write, read


def fail_to(write: Callable[[bool], None]) -> None:
    with pytest.raises(OSError, match="read-only"):
        write(False)


def test_by_default_whoever_spoke_last_is_believed(manager: Manager) -> None:
    write, read = pair(sticky=False)
    fail_to(write)
    read()
    assert manager.health().status is Status.PASS
    assert len(manager.health().checks) == 1


def test_a_sticky_failure_stays_until_the_same_function_passes(
    manager: Manager, clocks: Clocks
) -> None:
    write, read = pair(sticky=True)
    fail_to(write)
    clocks.pass_by(1)
    read()
    (check,) = manager.health().checks
    assert (check.status, check.output) == (Status.FAIL, "OSError: read-only")
    manager.passed("db")
    assert manager.health().status is Status.FAIL
    write(True)
    assert manager.health().status is Status.PASS


def test_a_sticky_failure_sticks_no_longer_than_it_is_believed(
    manager: Manager, clocks: Clocks
) -> None:
    write, read = pair(sticky=True)
    fail_to(write)
    clocks.pass_by(301)
    read()
    assert manager.health().status is Status.PASS


def test_an_ordinary_failure_is_answered_by_a_sticky_functions_pass(
    manager: Manager, clocks: Clocks
) -> None:
    fail_to(pair(sticky=False)[0])
    clocks.pass_by(1)
    pair(sticky=True)[1]()
    assert manager.health().status is Status.PASS


def test_functions_made_over_and_over_share_one_slot(manager: Manager) -> None:
    for sticky in (False, True):
        for _ in range(50):
            pair(sticky)[1]()
    assert len(manager._sources) == 2


# --- Components ----------------------------------------------------------------------------------


class Cell:
    """Something of which there are several."""

    def __init__(self, name: object) -> None:
        self.name = name

    @healthcheck("db", component_attr="name", component_type="datastore")
    def ping(self) -> None:
        if self.name == "cell2":
            raise OSError

    @healthcheck("db", component_attr="missing", component_id="fixed")
    def other(self) -> None:
        return None


def test_the_component_is_read_from_self_at_each_call(manager: Manager) -> None:
    cell = Cell("cell1")
    cell.ping()
    cell.name = 3
    cell.ping()
    cell.other()
    with pytest.raises(OSError):
        Cell("cell2").ping()
    checks = {check.component_id: check for check in manager.health().checks}
    assert {key: str(check.status) for key, check in checks.items()} == {
        "3": "pass",
        "cell1": "pass",
        "cell2": "fail",
        "fixed": "pass",
    }
    assert checks["cell1"].component_type == "datastore"


# --- The library's own troubles are not the function's -------------------------------------------


class Odd:
    """Whose component cannot be had."""

    @property
    def name(self) -> str:
        raise RuntimeError("not now")

    @healthcheck("db", [OSError], component_attr="name")
    def ping(self, works: bool) -> str:
        if not works:
            raise OSError("down")
        return "pong"


def test_a_defect_of_recording_never_reaches_the_caller(
    manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    assert Odd().ping(True) == "pong"
    with pytest.raises(OSError, match="down"):
        Odd().ping(False)
    assert [record.name for record in caplog.records] == ["yaffle_health"] * 2
    assert "'db' was not recorded" in caplog.text


def test_a_name_outside_the_closed_set_is_logged_once_and_the_function_works(
    clocks: Clocks, caplog: pytest.LogCaptureFixture
) -> None:
    @healthcheck("db")
    def ping() -> str:
        return "pong"

    with use(clocks.manager(names=["database"])) as manager:
        assert [ping() for _ in range(3)] == ["pong"] * 3
        assert manager.health().checks == ()
    (record,) = caplog.records
    assert "'db'" in record.getMessage()
