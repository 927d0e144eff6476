"""Polling asks who wanted it where the state says what helps; of the rest the cure is named."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.contract.lifecycle.stage import GONE, KIND, OFF, UP, LoopClock, Traced, targets

from yaffle.drivers.detectors.backend import status
from yaffle.drivers.detectors.backend.status import StatusDetector
from yaffle.integrations.tracing import CAUSES
from yaffle.model.health import Hint, Observation, Outcome
from yaffle.model.ids import ModeKey
from yaffle.model.operations import Actor, Cause, Reading
from yaffle.model.policy import DetectionMode, ModeType
from yaffle.ports import DriverContext
from yaffle.testing.loop import run_virtual

MODE = DetectionMode(key=ModeKey("0:NODE_STATUS_POLLING"), type=ModeType.NODE_STATUS_POLLING)
USER = Cause(actor=Actor.USER, detail="stop, by ada, at 03:00, req-1")
NOBODY = Cause(actor=Actor.NOBODY, detail="no request since 02:00")
ERROR = Reading(exists=True, up=False, backend_status="ERROR", detail="it failed")


@dataclass
class Cured(Traced):
    """One that knows what helps."""

    cures: Mapping[str, str] = field(default_factory=lambda: {"POWER_OFF": "START"})


def detector(backend: object) -> StatusDetector:
    context = DriverContext(
        clock=LoopClock(),
        state_dir=Path("/nowhere"),
        settings={},
        profiles={KIND: backend},  # type: ignore[dict-item]
    )
    return StatusDetector(context)


def check(backend: object, nodes: int = 1) -> Sequence[Observation]:
    async def main() -> Sequence[Observation]:
        return await detector(backend).check(targets(nodes), MODE, deadline_s=10.0)

    return run_virtual(main)


@pytest.mark.parametrize(
    ("cause", "code", "said"),
    [
        pytest.param(USER, "EV-OWN-WILL", "by ada", id="user"),
        pytest.param(NOBODY, "ST-DOWN", "no request", id="nobody"),
        pytest.param(Cause(actor=Actor.UNKNOWN, detail="403"), "ST-DOWN", "403", id="not told"),
        pytest.param(Cause(actor=Actor.UNASKED, detail="500"), "ST-UNCLEAR", "500", id="unasked"),
        pytest.param(OSError("cut"), "ST-UNCLEAR", "cut", id="away"),
        pytest.param(99.0, "ST-UNCLEAR", "in time", id="late"),
    ],
)
def test_who_wanted_it_off(cause: Cause | Exception | float, code: str, said: str) -> None:
    found = check(Cured(states={"s0": OFF}, causes={"s0": cause}))[0]
    assert found.code == code
    assert said in found.detail
    fails = found.outcome is Outcome.FAIL
    assert found.hint == (Hint(event="POWER_OFF", state="SHUTOFF") if fails else None)


@pytest.mark.parametrize("reading", [UP, GONE, ERROR], ids=["up", "gone", "in error"])
def test_what_has_no_cure_is_told_as_ever_and_nobody_is_asked(reading: Reading) -> None:
    backend = Cured(states={"s0": reading}, causes={"s0": USER})
    (found,) = check(backend)
    assert backend.traces == []
    assert found.hint is None
    assert found.code != "EV-OWN-WILL"


def test_a_profile_that_keeps_no_record_is_told_as_ever_with_its_cure() -> None:
    plain = check(Traced(states={"s0": OFF}, causes={"s0": USER}))[0]
    assert (plain.code, plain.hint) == ("ST-DOWN", None), "it knows of no cure"


def test_of_many_an_answer_is_kept_for_a_while_and_who_asks_about_one_is_told_anew() -> None:
    async def main() -> None:
        backend = Cured(states={"s0": OFF}, causes={"s0": USER})
        polling = detector(backend)

        async def poll(nodes: int) -> str:
            return (await polling.check(targets(nodes), MODE, deadline_s=10.0))[0].code

        assert [await poll(2) for _ in range(3)] == ["EV-OWN-WILL"] * 3
        assert len(backend.traces) == 1
        backend.causes["s0"] = NOBODY
        assert await poll(1) == "ST-DOWN", "who asks about one may be about to act"
        assert len(backend.traces) == 2
        await asyncio.sleep(status.MEMO_S + 1)
        backend.causes["s0"] = USER
        assert await poll(2) == "EV-OWN-WILL"
        backend.states["s0"] = UP
        assert await poll(2) == "ST-UP"
        backend.states["s0"], backend.causes["s0"] = replace(OFF), NOBODY
        assert await poll(2) == "ST-DOWN", "it ran in between: another story"

    run_virtual(main)


def test_a_storm_is_asked_about_a_few_at_once() -> None:
    backend = Cured(states={f"s{n}": OFF for n in range(300)})
    found = check(backend, 300)
    assert len(backend.traces) == 300
    assert {o.code for o in found} == {"ST-DOWN"}
    assert CAUSES < 300
