"""Random results on random ladders: the walk always ends, and nothing is created without a proof."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.model.weather import weather
from tests.unit.core.build import recovery

from yaffle.core.recovery.ladder import (
    TABLE,
    Done,
    End,
    IllegalStep,
    Next,
    Result,
    Rung,
    Stage,
    build,
    position,
)
from yaffle.model.policy import Evidence, FencingKind, RecoveryAction, RungKind

S, R = Stage, Result

actions = st.builds(
    RecoveryAction,
    name=st.sampled_from(["RECREATE", "REBOOT", "RECREATE", "EVACUATE", "my_workflow"]),
    kind=st.sampled_from([RungKind.BUILTIN, RungKind.BUILTIN, *RungKind]),
    in_place=st.booleans(),
)
ENDING = {R.HEALTHY, R.UNCLEAR, R.PASSED, R.SUPERSEDED}
POSSIBLE = {stage: sorted(r for s, r in TABLE if s is stage) for stage in Stage}


# A failing world is made small before it is shown, and that takes its time.
pytestmark = pytest.mark.timeout(900)


class Walk(RuleBasedStateMachine):
    """One recovery, its journal, and what a careful reader of the journal knows."""

    ladder: tuple[Rung, ...] = ()

    @initialize(
        rungs=st.lists(actions, min_size=1, max_size=4),
        fenced=st.booleans(),
        evidence=st.booleans(),
        force=st.booleans(),
    )
    def begin(self, rungs: list[RecoveryAction], fenced: bool, evidence: bool, force: bool) -> None:
        how = recovery(
            *rungs,
            fencing=(FencingKind.COMPUTE,) if fenced else (),
            evidence=Evidence(console_log=True, timeout_s=1.0) if evidence else None,
            node_force_recreate=force,
        )
        self.ladder = build(how)
        self.journal: list[Done] = []

    def now(self) -> Next | End:
        return position(self.ladder, self.journal)

    @precondition(lambda self: self.ladder and isinstance(self.now(), Next))
    @rule(data=st.data())
    def step_ends(self, data: st.DataObject) -> None:
        here = self.now()
        assert isinstance(here, Next)
        self._write(here, Result(data.draw(st.sampled_from(POSSIBLE[here.stage]))))

    @precondition(lambda self: self.ladder and isinstance(self.now(), Next))
    @rule(data=st.data(), count=st.integers(2, 6))
    def the_node_stays_sick(self, data: st.DataObject, count: int) -> None:
        """Several steps, none of which ends the walk: otherwise few walks get as far as CREATE."""
        for _ in range(count):
            here = self.now()
            if isinstance(here, End):
                return
            going_on = [r for r in POSSIBLE[here.stage] if r not in ENDING]
            self._write(here, Result(data.draw(st.sampled_from(going_on))))
            self.nothing_dangerous_without_proof_in_this_rung()

    def _write(self, here: Next, result: Result) -> None:
        step = Done(rung=here.rung, stage=here.stage, result=result)
        fenced = any(s.rung == here.rung and s.stage is S.FENCE for s in self.journal)
        if result is R.LEFT_BEHIND and not fenced:
            self._must_refuse(step)
        else:
            self.journal.append(step)

    @precondition(lambda self: self.ladder)
    @rule(rung=st.integers(0, 4), stage=st.sampled_from(Stage), result=st.sampled_from(Result))
    def journal_is_damaged(self, rung: int, stage: Stage, result: Result) -> None:
        here, step = self.now(), Done(rung=rung, stage=stage, result=result)
        if isinstance(here, End):
            self._must_not_go_on(here, step)
        elif (rung, stage) != (here.rung, here.stage) or result not in POSSIBLE[stage]:
            self._must_refuse(step)

    def _must_not_go_on(self, end: End, step: Done) -> None:
        """A late hand wrote after the end: refused, or the end stands."""
        try:
            assert position(self.ladder, [*self.journal, step]) is end
        except IllegalStep:
            assert end is End.EXHAUSTED

    def _must_refuse(self, step: Done) -> None:
        try:
            answer = position(self.ladder, [*self.journal, step])
        except IllegalStep:
            return
        raise AssertionError(f"{step} was believed and led to {answer}")

    @invariant()
    def nothing_dangerous_without_proof_in_this_rung(self) -> None:
        """Now, and after whatever the next step may come to: luck meets some of it too seldom."""
        here = self.now() if self.ladder else None
        if not isinstance(here, Next):
            return
        self._safe(self.journal)
        fenced = any(s.rung == here.rung and s.stage is S.FENCE for s in self.journal)
        for result in POSSIBLE[here.stage]:
            step = Done(rung=here.rung, stage=here.stage, result=result)
            if result is R.LEFT_BEHIND and not fenced:
                self._must_refuse(step)
            else:
                self._safe([*self.journal, step])

    def _safe(self, journal: list[Done]) -> None:
        here = position(self.ladder, journal)
        if not isinstance(here, Next):
            return
        action = self.ladder[here.rung].action
        dangerous = here.stage is S.CREATE or (here.stage is S.ACT and not action.in_place)
        sure = [
            s
            for s in journal
            if s.rung == here.rung
            and s.stage in {S.FENCE, S.DELETE}
            and s.result in {R.PROVED, R.WAIVED}
        ]
        assert not dangerous or sure, (here, journal)
        assert here.proved is bool(sure)

    @invariant()
    def no_step_before_a_look(self) -> None:
        """Each rung begins by looking, and goes on only because the node is still sick."""
        looked = {
            s.rung for s in getattr(self, "journal", []) if (s.stage, s.result) == (S.LOOK, R.SICK)
        }
        assert all(s.stage is S.LOOK or s.rung in looked for s in getattr(self, "journal", []))

    @invariant()
    def acted_means_that_the_target_may_differ(self) -> None:
        if not self.ladder:
            return
        here = self.now()
        if isinstance(here, Next):
            touched = any(s.stage not in {S.LOOK, S.EVIDENCE} for s in self.journal)
            assert here.acted is touched

    @invariant()
    def the_walk_is_bounded(self) -> None:
        steps = sum(len(rung.path) for rung in self.ladder)
        assert len(getattr(self, "journal", [])) <= steps

    @invariant()
    def ends_are_earned(self) -> None:
        if not self.ladder:
            return
        here, last = self.now(), self.journal[-1:]
        touched = any(s.stage not in {S.LOOK, S.EVIDENCE} for s in self.journal)
        if here is End.RECOVERED:
            assert touched
            assert last[0].result in {R.PASSED, R.HEALTHY}
        elif here is End.ALREADY_HEALTHY:
            assert not touched
            assert last[0].result is R.HEALTHY
        elif here is End.EXHAUSTED:
            assert last[0].rung == len(self.ladder) - 1

    def teardown(self) -> None:
        """Whatever was left open ends within the steps that are left, by the worst result of each."""
        if not self.ladder:
            return
        worst = {S.LOOK: R.SICK, S.EVIDENCE: R.FAILED, S.ACT: R.DONE, S.CREATE: R.DONE}
        for _ in range(sum(len(rung.path) for rung in self.ladder) + 1):
            here = self.now()
            if isinstance(here, End):
                return
            default = R.WAIVED if here.stage in {S.FENCE, S.DELETE} else R.FAILED
            result = worst.get(here.stage, default)
            self.journal.append(Done(rung=here.rung, stage=here.stage, result=result))
        raise AssertionError(f"no end in sight: {self.journal}")


TestWalk = Walk.TestCase
TestWalk.settings = weather(examples=100, steps=25)
