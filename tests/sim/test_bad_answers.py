"""Whatever a driver answers, and whatever a row holds, the engine lives on and heals the others."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from sqlalchemy import update
from tests.sim.stage import Stage, policy
from tests.sim.test_rules import play

from yaffle.model.health import Observation, Outcome
from yaffle.model.ids import ModeKey
from yaffle.model.operations import (
    FenceResult,
    FenceVerdict,
    Progress,
    ProgressState,
    Promise,
    Reading,
    Target,
)
from yaffle.policy import parse_document
from yaffle.store import orphans
from yaffle.store.tables import debris as debris_table
from yaffle.store.tables import steps
from yaffle.testing import Fault, Rule

Answer = Callable[[], Any]


class Broken(Exception):
    """A stranger's bug."""


def raising(error: BaseException) -> Answer:
    def answer() -> Any:
        raise error

    return answer


ANY: tuple[Answer, ...] = (
    lambda: None,
    lambda: "yes",
    lambda: [None],
    object,
    raising(Broken("\0")),
    raising(asyncio.CancelledError()),
    raising(TimeoutError()),
    raising(StopAsyncIteration()),
)
"""What any port may come up with."""

ODD: Mapping[str, tuple[Answer, ...]] = {
    "submit": (
        lambda: Progress(state=ProgressState.DONE, attributes={"t": object()}),
        lambda: Progress(state=ProgressState.DONE, attributes="no mapping"),  # type: ignore[arg-type]
        lambda: Progress(state=ProgressState.FAILED, detail="\0" + "x" * 100_000),
        lambda: Progress(state=ProgressState.RUNNING, physical_id=7),  # type: ignore[arg-type]
        lambda: Progress(state="odd"),  # type: ignore[arg-type]
    ),
    "read": (
        lambda: [Reading(exists=True, up=True, backend_status=None, detail=None, physical_id=7)],  # type: ignore[arg-type]
        dict,
    ),
    "fence": (
        lambda: FenceResult(verdict=FenceVerdict.CONFIRMED, detail="sure", proof=None),
        lambda: FenceResult(verdict="confirmed", detail=None, proof="word"),  # type: ignore[arg-type]
    ),
    "send": (lambda: (None, None), lambda: ("accepted",)),
}


class Bad:
    """A driver's method that answers nonsense about one node, one kind of it after the other."""

    def __init__(self, right: Any, wrong: tuple[Answer, ...], concerns: Any) -> None:
        self._right, self._concerns = right, concerns
        self._wrong = itertools.cycle(wrong)
        self.met = 0

    async def __call__(self, *given: Any, **named: Any) -> Any:
        if not self._concerns(*given):
            return await self._right(*given, **named)
        self.met += 1
        return next(self._wrong)()


def victim_of(s: Stage) -> Any:
    return s.node_ids()[0]


async def others_are_healed(s: Stage, bad: Bad | None) -> None:
    """The engine lives on after what was planted, and heals another node."""
    await s.clock.sleep(60)
    s.world.kill(s.node_ids()[1])
    await s.clock.sleep(90)
    (life,) = s.living
    assert life.task is not None
    assert not life.task.done(), "the engine ended"
    assert s.world.serving(s.node_ids()[1]), await s.picture()
    assert bad is None or bad.met > 0, "the bad answer was never asked for"


@pytest.mark.parametrize("call", ["submit", "poll", "capture"])
def test_a_profile_that_answers_nonsense_ends_nothing(call: str) -> None:
    async def story(s: Stage) -> None:
        profile: Any = s.living[0].ctx.drivers.profiles[s.profile.type]
        victim = victim_of(s)

        def concerns(asked: Any) -> bool:
            return bool(getattr(asked, "target", asked).node_id == victim)

        wrong = (*ANY, *ODD.get(call, ODD["submit"] if call == "poll" else ()))
        bad = Bad(getattr(profile, call), wrong, concerns)
        setattr(profile, call, bad)
        if call == "poll":
            # The answer to REBOOT is lost, so that it has to be asked for.
            s.plan.rules.append(Rule(fault=Fault.LOSE, call="submit:*"))
        s.world.hang(victim)
        await others_are_healed(s, bad)

    evidence = {"console_log": True, "timeout": 5}
    play(story, evidence=evidence)


def test_a_profile_that_reads_nonsense_ends_nothing() -> None:
    async def story(s: Stage) -> None:
        profile: Any = s.living[0].ctx.drivers.profiles[s.profile.type]
        right, victim = profile.read, victim_of(s)
        bad = Bad(right, (*ANY, *ODD["read"]), lambda targets: targets[0].node_id == victim)
        profile.read = bad
        s.world.kill(victim)
        await s.clock.sleep(120)
        profile.read = right
        await others_are_healed(s, bad)

    play(story)


def odd_observations(s: Stage, asked: Sequence[Target]) -> tuple[Answer, ...]:
    """Return answers that look like observations of whom was `asked` for, and are none."""
    whole = Observation(
        node_id=victim_of(s),
        mode=ModeKey("1:NODE_STATUS_POLL_URL"),
        outcome=Outcome.PASS,
        code="L7-OK",
        detail="",
        at_us=s.clock.now_us(),
    )
    junk: list[dict[str, Any]] = [
        {"outcome": "pass"},
        {"outcome": None},
        {"mode": None},
        {"at_us": None},
        {"at_us": "now"},
        {"detail": None, "backend_status": None},
        {"node_id": ["no", "hash"]},
        {"code": 7},
        {"took_us": None},
    ]
    return tuple(
        lambda changed=changed: [  # type: ignore[misc]
            replace(whole, **{"node_id": target.node_id, **changed}) for target in asked
        ]
        for changed in junk
    )


def test_a_detector_that_answers_nonsense_ends_nothing() -> None:
    async def story(s: Stage) -> None:
        detectors: Any = s.living[0].ctx.drivers.detectors
        detector = detectors["NODE_STATUS_POLL_URL"]
        right = detector.check
        asked: list[Target] = []

        def concerns(targets: Sequence[Target], _mode: object) -> bool:
            asked[:] = targets
            return True

        bad = Bad(right, (*odd_observations(s, asked), *ANY), concerns)
        detector.check = bad
        await s.clock.sleep(120)
        detector.check = right
        await others_are_healed(s, bad)
        assert bad.met >= 17

    play(story)


@pytest.mark.parametrize("call", ["fence", "supports"])
def test_a_fencer_that_answers_nonsense_ends_nothing(call: str) -> None:
    async def story(s: Stage) -> None:
        fencer: Any = s.living[0].ctx.drivers.fencers["COMPUTE"]
        right, victim = getattr(fencer, call), victim_of(s)
        wrong = itertools.cycle((*ANY, *ODD["fence"]))
        met = 0

        async def fence(target: Any, **named: Any) -> Any:
            nonlocal met
            if target.node_id != victim:
                return await right(target, **named)
            met += 1
            return next(wrong)()

        def supports(target: Any) -> Any:
            nonlocal met
            if target.node_id != victim:
                return right(target)
            met += 1
            return next(wrong)()

        setattr(fencer, call, fence if call == "fence" else supports)
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE", node=await name_of(s)))
        s.world.hang(victim)
        await others_are_healed(s, None)
        assert met > 0

    # Its deletion fails as well: nothing but a proof may lead to a new copy, which the audit sees.
    play(story, actions=[{"name": "RECREATE", "timeout": 60}])


async def name_of(s: Stage) -> str:
    return str(next(n.name for n in await s.nodes() if n.id == victim_of(s)))


def test_a_notifier_that_answers_nonsense_is_asked_again() -> None:
    async def story(s: Stage) -> None:
        notifier: Any = s.living[0].ctx.drivers.notifiers["told"]
        right = notifier.send
        bad = Bad(right, (*ANY, *ODD["send"]), lambda _message: bad.met < 12)
        notifier.send = bad
        s.world.kill(victim_of(s))
        await others_are_healed(s, bad)
        await s.clock.sleep(600)
        topics = {m.topic for m in s.notifier.received}
        assert topics == {"incident.opened", "incident.recovering", "incident.recovered"}

    play(story)


class Strange:
    """A workflow driver all of whose answers are bad."""

    type: ClassVar[str] = "COMMAND"
    promises: ClassVar[frozenset[Promise]] = frozenset()

    def __init__(self) -> None:
        self._wrong = itertools.cycle((*ANY, *ODD["submit"]))
        self.met = 0

    def validate(self, name: str, params: Mapping[str, object]) -> None:
        """Accept."""

    def in_place(self, name: str) -> bool:
        """Declare something, if it comes to that."""
        return self._any()  # type: ignore[no-any-return]

    async def submit(self, *_given: Any, **_named: Any) -> Progress:
        """Answer nonsense."""
        return self._any()  # type: ignore[no-any-return]

    async def poll(self, *_given: Any, **_named: Any) -> Progress:
        """Answer nonsense."""
        return self._any()  # type: ignore[no-any-return]

    def _any(self) -> Any:
        self.met += 1
        return next(self._wrong)()


def test_a_workflow_driver_that_answers_nonsense_ends_nothing() -> None:
    async def story(s: Stage) -> None:
        strange = Strange()
        workflows: Any = s.living[0].ctx.drivers.workflows
        workflows["COMMAND"] = strange
        s.ctx.drivers.workflows["COMMAND"] = strange  # type: ignore[index]
        # A cluster of its own: its driver is asked whenever its policy is read.

        actions = [{"name": "odd", "type": "COMMAND", "timeout": 20}]
        await s.commands.create_policy(
            "odd", parse_document(policy(actions=actions)), source="", by="sim"
        )
        known = set(s.node_ids())
        await s.commands.create_cluster("odd", "profile-web", 2, by="sim", policy="odd")
        await s.clock.sleep(40)
        s.world.hang(next(i for i in s.node_ids() if i not in known))
        await s.clock.sleep(60)
        s.world.kill(min(known))
        await s.clock.sleep(90)
        assert s.world.serving(min(known)), await s.picture()
        assert s.living[0].task is not None
        assert not s.living[0].task.done()
        assert strange.met > 10

    play(story)


# --- rows --------------------------------------------------------------------------------------


def test_a_journal_nobody_can_read_ends_one_action() -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.HANG, call="*:REBOOT", node=await name_of(s)))
        s.world.hang(victim_of(s))
        await s.clock.sleep(20)
        await s.store.write(
            lambda c: c.execute(update(steps).where(steps.c.stage == "look").values(result="bogus"))
        )
        await others_are_healed(s, None)
        row = next(n for n in await s.nodes() if n.id == victim_of(s))
        assert row.exhausted_us is not None, "a person is asked for"
        assert [m.topic for m in s.notifier.received].count("incident.exhausted") == 1

    play(story)


def test_remains_nobody_can_read_end_nothing() -> None:
    async def story(s: Stage) -> None:
        rows = await s.nodes()

        def work(conn: Any) -> None:
            target = Target(
                node_id=rows[0].id, name="x", physical_id="x", profile_type="x", spec={}
            )
            for wrong in ({}, [], "x", {"spec": 7}):
                ident = s.new_id()
                orphans.add(conn, ident, target, s.clock.now_us())
                mine = debris_table.c.id == ident
                conn.execute(update(debris_table).where(mine).values(target=wrong))

        await s.store.write(work)
        await others_are_healed(s, None)

    play(story)
