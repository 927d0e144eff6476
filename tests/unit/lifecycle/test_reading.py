"""Who wanted a node to be down decides whether that is a failure; what cannot be found out is unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.contract.lifecycle.stage import (
    GONE,
    OFF,
    UNCLEAR,
    UP,
    LoopClock,
    Seen,
    Traced,
    detector,
    mode,
    target,
    targets,
)

from yaffle.errors import DependencyError
from yaffle.integrations.tracing import CAUSES
from yaffle.model.health import Hint, Observation, Outcome
from yaffle.model.operations import Actor, Cause, Reading
from yaffle.testing.loop import run_virtual

USER = Cause(actor=Actor.USER, detail="stop, by ada, at 03:00, req-1")
NOBODY = Cause(actor=Actor.NOBODY, detail="no request since 02:00")
OURS = Cause(actor=Actor.OURSELVES, detail="stop, req-2")
UNKNOWN = Cause(actor=Actor.UNKNOWN, detail="the record may not be read (403)")

UNASKED = Cause(actor=Actor.UNASKED, detail="could not be found out (500)")


def check(backend: Traced, nodes: int = 1, deadline_s: float = 10.0) -> Sequence[Observation]:
    async def main() -> Sequence[Observation]:
        lifecycle = detector(backend, clock=LoopClock())
        return await lifecycle.check(targets(nodes), mode(), deadline_s=deadline_s)

    return run_virtual(main)


@pytest.mark.parametrize(
    ("cause", "code", "outcome", "said"),
    [
        pytest.param(USER, "EV-OWN-WILL", Outcome.WARN, "by ada", id="user"),
        pytest.param(OURS, "EV-OWN-WILL", Outcome.WARN, "our own work", id="ourselves"),
        pytest.param(NOBODY, "ST-DOWN", Outcome.FAIL, "no request", id="nobody"),
        pytest.param(UNKNOWN, "ST-DOWN", Outcome.FAIL, "403", id="unknown"),
        pytest.param(UNASKED, "ST-UNCLEAR", Outcome.UNKNOWN, "500", id="unasked"),
        pytest.param(OSError("cut"), "ST-UNCLEAR", Outcome.UNKNOWN, "cut", id="away"),
        pytest.param(DependencyError("503"), "ST-UNCLEAR", Outcome.UNKNOWN, "503", id="error"),
        pytest.param(ValueError("x"), "X-BUG", Outcome.UNKNOWN, "ValueError", id="bug"),
        pytest.param(99.0, "ST-UNCLEAR", Outcome.UNKNOWN, "in time", id="late"),
    ],
)
def test_who_wanted_it_so(
    cause: Cause | Exception | float, code: str, outcome: Outcome, said: str
) -> None:
    found = check(Traced(states={"s0": OFF}, causes={"s0": cause}))[0]
    assert (found.code, found.outcome) == (code, outcome)
    assert said in found.detail
    assert "power off" in found.detail, "and what was read"
    assert found.backend_status == "SHUTOFF"
    assert not found.authoritative, "nobody told us of it"
    hint = Hint(event="POWER_OFF", state="SHUTOFF")
    assert found.hint == (hint if outcome is Outcome.FAIL else None)


def test_what_we_deleted_and_never_built_again_is_missing() -> None:
    gone = Reading(exists=False, up=False, backend_status="gone", detail="no such server")
    deleted = Cause(actor=Actor.OURSELVES, detail="delete, req-3")
    found = check(Traced(states={"s0": gone}, causes={"s0": deleted}))[0]
    assert (found.code, found.outcome) == ("ST-GONE", Outcome.FAIL)
    assert "our own work" in found.detail


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        pytest.param(Cause(actor=Actor.OURSELVES, detail="d"), "ST-STUCK", id="our own fence"),
        pytest.param(Cause(actor=Actor.USER, detail="d"), "EV-OWN-WILL", id="a user's deletion"),
        pytest.param(Cause(actor=Actor.UNKNOWN, detail="d"), "ST-STUCK", id="no record of whose"),
        pytest.param(Cause(actor=Actor.NOBODY, detail="d"), "ST-STUCK", id="it was to run"),
    ],
)
def test_what_moves_no_more_is_a_failure_unless_a_user_wanted_its_end(
    cause: Cause, code: str
) -> None:
    stuck = Reading(
        exists=True, up=None, backend_status="ACTIVE", detail="task deleting", stuck=True
    )
    assert check(Traced(states={"s0": stuck}, causes={"s0": cause}))[0].code == code


@pytest.mark.parametrize(
    ("reading", "asked"), [(UP, False), (UNCLEAR, False), (OFF, True), (GONE, True)]
)
def test_only_a_failure_has_a_cause(reading: Reading, asked: bool) -> None:
    backend = Traced(states={"s0": reading})
    check(backend)
    assert backend.traces == (["s0"] if asked else [])


def test_a_thousand_causes_are_asked_for_a_few_at_once_and_the_rest_is_unknown() -> None:
    running = most = 0

    class Counting(Traced):
        async def cause(self, target: object, *, deadline_s: float) -> Cause:
            nonlocal running, most
            running += 1
            most = max(most, running)
            try:
                await asyncio.sleep(0.5)
            finally:
                running -= 1
            return NOBODY

    found = check(Counting(states={f"s{n}": OFF for n in range(1000)}), 1000, deadline_s=5.0)
    assert most == CAUSES
    codes = {code: sum(o.code == code for o in found) for code in {o.code for o in found}}
    assert set(codes) == {"ST-DOWN", "ST-UNCLEAR"}
    assert codes["ST-DOWN"] >= CAUSES * 9
    assert not [o for o in found if o.code == "ST-UNCLEAR" and o.outcome is Outcome.FAIL]


def test_the_answer_is_kept_until_something_changes() -> None:
    """A server that somebody has stopped stays stopped for months: nobody asks why every interval."""

    async def main() -> None:
        backend = Traced(states={"s0": OFF}, causes={"s0": USER})
        lifecycle, seen = detector(backend, clock=LoopClock()), Seen()
        lifecycle.watch("w", [target(0)], mode(), interval_s=10, sink=seen)
        await asyncio.sleep(55)
        assert backend.asked("s0") >= 5
        assert backend.traces == ["s0"]
        assert set(seen.codes(0)) == {"EV-OWN-WILL"}
        await asyncio.sleep(50)
        assert len(backend.traces) == 2, "nobody tells us of a change here: asked again in a minute"
        # It was started, and then it died: the same word, but another reading.
        backend.states["s0"] = UP
        await asyncio.sleep(12)
        backend.states["s0"], backend.causes["s0"] = OFF, NOBODY
        await asyncio.sleep(12)
        assert seen.codes(0)[-1] == "ST-DOWN"
        lifecycle.unwatch("w")

    run_virtual(main)


def test_a_cause_is_that_of_one_reading() -> None:
    """A user has stopped it; that it is gone now is another matter."""

    async def main() -> None:
        backend = Traced(states={"s0": OFF}, causes={"s0": USER})
        lifecycle, seen = detector(backend, clock=LoopClock()), Seen()
        lifecycle.watch("w", [target(0)], mode(), interval_s=10, sink=seen)
        await asyncio.sleep(15)
        backend.states["s0"], backend.causes["s0"] = GONE, NOBODY
        await asyncio.sleep(12)
        assert seen.codes(0)[-1] == "ST-GONE"
        lifecycle.unwatch("w")

    run_virtual(main)


def test_what_could_not_be_found_out_is_asked_again() -> None:
    async def main() -> None:
        backend = Traced(states={"s0": OFF}, causes={"s0": OSError("away")})
        lifecycle, seen = detector(backend, clock=LoopClock()), Seen()
        lifecycle.watch("w", [target(0)], mode(), interval_s=10, sink=seen)
        await asyncio.sleep(25)
        assert len(backend.traces) == 3
        backend.causes["s0"] = OURS
        await asyncio.sleep(20)
        assert len(backend.traces) == 5, "our own work ends: no answer to keep"
        backend.causes["s0"] = NOBODY
        await asyncio.sleep(10)
        assert seen.codes(0)[-1] == "ST-DOWN"
        lifecycle.unwatch("w")

    run_virtual(main)


def test_a_gone_node_is_not_started_again_because_it_was_powered_off_once() -> None:
    from tests.unit.lifecycle.test_watch import OFF_EVENT

    from yaffle.drivers.detectors.lifecycle.reading import Found

    gone = Found(seen=("ST-GONE", "no such server", "404"), at_us=1, took_us=0, reading=GONE)
    assert gone.as_observation(target(0), mode(), OFF_EVENT).hint is None
