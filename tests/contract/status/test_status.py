"""NODE_STATUS_POLLING against scripted profiles and a real process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from yaffle.core.health.backend_status_codes import classify
from yaffle.core.health.check_codes import OUTCOMES
from yaffle.drivers.detectors.backend.status import StatusDetector
from yaffle.errors import ConfigError, StoreUnavailable
from yaffle.model.health import Observation, Outcome
from yaffle.model.ids import ModeKey, NodeId
from yaffle.model.operations import Reading, Target
from yaffle.model.policy import DetectionMode, ModeType
from yaffle.ports import DriverContext

MODE = DetectionMode(key=ModeKey("0:NODE_STATUS_POLLING"), type=ModeType.NODE_STATUS_POLLING)


class RealClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Scripted:
    """The reading half of a profile."""

    def __init__(
        self, name: str, answer: Callable[[Sequence[Target]], Awaitable[Sequence[Reading]]]
    ) -> None:
        self.type = name
        self._answer = answer
        self.calls: list[int] = []

    async def read(self, targets: Sequence[Target], *, deadline_s: float) -> Sequence[Reading]:
        self.calls.append(len(targets))
        return await self._answer(targets)


def reading(
    *,
    exists: bool = True,
    up: bool | None = True,
    word: str = "ACTIVE",
    detail: str = "",
    stuck: bool = False,
) -> Reading:
    return Reading(exists=exists, up=up, backend_status=word, detail=detail, stuck=stuck)


def target(name: str, kind: str) -> Target:
    return Target(node_id=NodeId(name), name=name, physical_id="", profile_type=kind, spec={})


async def well(targets: Sequence[Target]) -> Sequence[Reading]:
    return [reading(detail=one.name) for one in targets]


async def hang(targets: Sequence[Target]) -> Sequence[Reading]:
    await asyncio.Event().wait()
    return []


async def break_down(targets: Sequence[Target]) -> Sequence[Reading]:
    raise ZeroDivisionError("a driver's bug")


async def lose_connection(targets: Sequence[Target]) -> Sequence[Reading]:
    raise ConnectionResetError("reset by peer")


async def lose_database(targets: Sequence[Target]) -> Sequence[Reading]:
    raise StoreUnavailable("away")


async def miscount(targets: Sequence[Target]) -> Sequence[Reading]:
    return [reading()] * (len(targets) + 1)


def check(
    profiles: Sequence[Scripted], targets: Sequence[Target], deadline_s: float = 5.0
) -> Sequence[Observation]:
    context = DriverContext(
        clock=RealClock(),
        state_dir=Path("/nowhere"),
        profiles={one.type: one for one in profiles},  # type: ignore[misc]
    )
    return asyncio.run(StatusDetector(context).check(targets, MODE, deadline_s=deadline_s))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        pytest.param(reading(), "ST-UP", id="up"),
        pytest.param(reading(up=False, word="SHUTOFF"), "ST-DOWN", id="off"),
        pytest.param(reading(up=False, exists=False, word="gone"), "ST-GONE", id="gone"),
        pytest.param(reading(up=False, word="stopped (frozen)"), "ST-FROZEN", id="frozen"),
        pytest.param(reading(up=False, word="PAUSED"), "ST-FROZEN", id="paused"),
        pytest.param(reading(up=None, stuck=True), "ST-STUCK", id="stuck"),
        pytest.param(reading(up=None, word="ERROR"), "ST-UNCLEAR", id="unclear"),
        pytest.param(reading(up=None, exists=False), "ST-UNCLEAR", id="unclear-absent"),
    ],
)
def test_a_reading_means_a_row(given: Reading, code: str) -> None:
    assert classify(given)[0] == code


def test_answers_come_in_order_whatever_the_profile() -> None:
    even, odd = Scripted("even", well), Scripted("odd", well)
    targets = [target(f"n{i}", "odd" if i % 2 else "even") for i in range(2201)]
    seen = check([even, odd], targets)
    assert [one.node_id for one in seen] == [one.node_id for one in targets]
    assert all(one.detail == f"ACTIVE: {one.node_id}" for one in seen)
    assert {one.mode for one in seen} == {MODE.key}
    # One call per batch, never one per node.
    assert sorted(even.calls + odd.calls) == [100, 101, 1000, 1000]


def test_the_backends_own_word_is_passed_on() -> None:
    async def off(targets: Sequence[Target]) -> Sequence[Reading]:
        return [reading(up=False, word="SHUTOFF", detail="power\nis off" + "x" * 999)]

    (seen,) = check([Scripted("a", off)], [target("n", "a")])
    assert (seen.outcome, seen.backend_status, seen.answered) == (Outcome.FAIL, "SHUTOFF", True)
    assert len(seen.detail) <= 300
    assert "\n" not in seen.detail


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (hang, "ST-TIMEOUT"),
        (lose_connection, "ST-ERROR"),
        (lose_database, "ST-ERROR"),
        (break_down, "X-BUG"),
        (miscount, "X-BUG"),
    ],
)
def test_what_goes_wrong_is_unknown_and_stays_with_its_profile(
    answer: Callable[[Sequence[Target]], Awaitable[Sequence[Reading]]], code: str
) -> None:
    with capture_logs() as logs:
        seen = check(
            [Scripted("bad", answer), Scripted("good", well)],
            [target("n1", "bad"), target("n2", "good"), target("n3", "bad")],
            # Who answers may be held up before that: only silence needs little time.
            deadline_s=1.0 if answer is hang else 60.0,
        )
    assert [one.code for one in seen] == [code, "ST-UP", code]
    assert seen[0].outcome is Outcome.UNKNOWN
    assert seen[0].answered is False
    assert bool(logs) == (code == "X-BUG")
    if answer is break_down:
        assert logs[0]["exc_info"]


def test_an_unknown_profile_is_unknown() -> None:
    (seen,) = check([], [target("n", "missing")])
    assert (seen.code, seen.outcome) == ("ST-ERROR", Outcome.UNKNOWN)


def test_no_targets_no_observations() -> None:
    assert list(check([], [])) == []


def test_every_code_is_a_row_and_its_outcome_comes_from_the_table() -> None:
    (seen,) = check([Scripted("a", well)], [target("n", "a")])
    row = OUTCOMES[seen.code]
    assert (seen.outcome, seen.answered) == (row.outcome, row.answered)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="colour"):
        StatusDetector(
            DriverContext(
                clock=RealClock(), state_dir=Path("/nowhere"), settings={"colour": "green"}
            )
        )
