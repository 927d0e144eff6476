"""Random weather over a whole cluster: verdict, planner, retry and budgets against a dumb twin.

The rules are faults and people, not messages: a node goes dark, a zone dies, the watcher loses its
network, the clock jumps, the engine restarts, an operator pauses. After each of them the invariants
hold; and when the weather clears, every dark node is healed or held for a reason that is true.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.model.twin import Life, blind, lifted, reasons
from tests.model.weather import weather
from tests.model.world import CLUSTER, World
from tests.unit.core.build import (
    MODES,
    SECOND,
    STATUS,
    URL,
    decisions,
    detection,
    observation,
    pause,
    recovery,
)

from yaffle.core.health.staleness import stale_after_us
from yaffle.core.planning.budgets import Bucket, BudgetLimit, Scope
from yaffle.core.planning.cluster_view import ClusterView
from yaffle.core.planning.retry import FRESH
from yaffle.model.health import Health, Mark
from yaffle.model.ids import ModeKey
from yaffle.model.incident import Decision, Hold, HoldReason, Recover
from yaffle.model.policy import Conditional, RecoveryMode, Retry, Threshold, WhenExceeded

R = HoldReason
ZONES = {"east": ("a", "b", "c"), "west": ("d", "e")}
NAMES = tuple(name for zone in ZONES.values() for name in zone)
RETRY = Retry(attempts=2, backoff_s=20.0, max_backoff_s=60.0, stable_after_s=120.0)
LETTER = {"pass": "p", "warn": "p", "fail": "f", "unknown": "u"}
BUDGET = BudgetLimit(max_in_flight=2, burst=2, per_hour=30.0)
NEEDS_A_HAND = {
    R.STOPPED,
    R.MAINTENANCE,
    R.DEPENDENCY_LOST,
    R.NEEDS_HUMAN,
    R.STORM,
    R.DOMAIN_STORM,
    R.OBSERVE_MODE,
    R.BLIND,
}
"""Reasons that may last for ever; every other one has to end by itself."""

names = st.sampled_from(NAMES)
thresholds = st.sampled_from(
    [Threshold(percent=40.0), Threshold(percent=20.0), Threshold(count=1), Threshold(percent=100.0)]
)


# A failing world is made small before it is shown, and that takes its time.
pytestmark = pytest.mark.timeout(900)


class Cluster(RuleBasedStateMachine):
    """Five nodes in two zones, their truth, and what the core believes of it."""

    world: World

    @initialize(
        conditional=st.sampled_from(list(Conditional)),
        modes=st.sampled_from([(STATUS,), (STATUS, URL)]),
        early=st.booleans(),
        rise=st.integers(1, 2),
        fall=st.integers(1, 3),
        limit=thresholds,
        when=st.sampled_from(list(WhenExceeded)),
        cap=st.integers(1, 3),
        domain=st.sampled_from(["zone", "zone", None]),
        capacity=st.sampled_from([12, 5, 8, 2]),
        mode=st.sampled_from([RecoveryMode.RECOVER] * 3 + [RecoveryMode.OBSERVE]),
    )
    def begin(
        self,
        conditional: Conditional,
        modes: tuple[ModeKey, ...],
        early: bool,
        rise: int,
        fall: int,
        limit: Threshold,
        when: WhenExceeded,
        cap: int,
        domain: str | None,
        capacity: int,
        mode: RecoveryMode,
    ) -> None:
        how = detection(
            *modes, conditional=conditional, grace_ends_early=early, rise=rise, fall=fall
        )
        healing = recovery(
            max_unhealthy=limit,
            when_exceeded=when,
            max_in_flight=cap,
            domain=domain,
            mode=mode,
            retry=RETRY,
        )
        self.world = World(detection=how, recovery=healing, limits={Scope.GLOBAL: BUDGET})
        for zone, members in ZONES.items():
            self.world.join(members, zone)
        self.world.desired_capacity = capacity
        now_us = self.world.now_us
        self.world.buckets = {(Scope.GLOBAL, ""): Bucket(tokens=2.0, updated_us=now_us)}
        self.up = dict.fromkeys(NAMES, True)
        self.network = "open"
        self.wrong: set[tuple[str, str]] = set()
        self.lives = {name: Life() for name in NAMES}
        for life in self.lives.values():
            life.forget(list(modes))
        self.admitted = 0
        self.exhausted: set[str] = set()
        self.forward_us = 0
        self.rounds(rise)

    # --- time and observations

    def clock(self, seconds: float) -> None:
        """Move the clock, and let core and twin both notice at once."""
        self.world.pass_time(seconds)
        self.forward_us += max(0, int(seconds * SECOND))
        self.world.conclude()
        self._twin_notices()

    def _twin_notices(self) -> None:
        now_us, how = self.world.now_us, self.world.detection
        for name, life in self.lives.items():
            for mode, diary in life.diaries.items():
                diary.hole(now_us, stale_after_us(MODES[ModeKey(mode)], how))
            if life.born_us is not None:
                life.born_us = min(life.born_us, now_us)
                if now_us - life.born_us >= how.node_update_timeout_s * SECOND:
                    life.born_us = None
            if self.world.members[name].retry == FRESH:
                life.tries = 0

    def rounds(self, count: int) -> None:
        """Ask everybody, an interval apart."""
        for _ in range(count):
            self.clock(self.world.detection.interval_s)
            for name in NAMES:
                for mode in self.lives[name].diaries:
                    self.tell(name, mode, self._truth(name, mode))

    def _truth(self, name: str, mode: str) -> str:
        if self.network == "deaf":
            return "unknown"
        well = self.up[name] and self.network == "open" and (name, mode) not in self.wrong
        return "pass" if well else "fail"

    def tell(self, name: str, mode: str, outcome: str, ago_us: int = 0, **of: Any) -> None:
        at_us = self.world.now_us - ago_us
        life, key = self.lives[name], ModeKey(mode)
        seen = observation(outcome, at_us, mode=key, **of)
        grace_us = self.world.members[name].memory.grace_us
        self.world.see(name, seen)
        if grace_us is not None and at_us < grace_us <= self.world.now_us:
            return  # about the copy before
        letter = "F" if seen.authoritative else LETTER[outcome]
        stale_us = stale_after_us(MODES[key], self.world.detection)
        diary = life.diaries[mode]
        diary.write(letter, at_us, self.world.now_us, stale_us, answered=seen.answered)
        diary.hole(self.world.now_us, stale_us)

    # --- faults

    @rule(count=st.integers(1, 3))
    def time_passes(self, count: int) -> None:
        self.rounds(count)

    @rule(name=names)
    def node_goes_dark(self, name: str) -> None:
        """One fault, not several lucky dice: the node is dark for as long as a verdict takes."""
        self.up[name] = False
        self.rounds(self.world.detection.fall)

    @rule(name=names)
    def node_fails_once(self, name: str) -> None:
        self.up[name] = False
        self.rounds(1)

    @rule(order=st.permutations(NAMES), count=st.integers(2, 4))
    def nodes_fail_one_after_another(self, order: list[str], count: int) -> None:
        """A correlated failure as it looks from outside: each a check behind the one before."""
        for name in order[:count]:
            self.up[name] = False
            self.rounds(1)

    @rule(name=names, data=st.data(), lasts=st.integers(1, 3))
    def one_mode_changes_its_mind(self, name: str, data: st.DataObject, lasts: int) -> None:
        """A mode sees a failure that the others do not see, or sees it no longer."""
        mode = data.draw(st.sampled_from(sorted(self.lives[name].diaries)))
        self.wrong ^= {(name, mode)}
        self.rounds(lasts)

    @rule(name=names, data=st.data())
    def two_modes_take_turns(self, name: str, data: st.DataObject) -> None:
        """One mode fails until it is down; as it comes back, the other begins to fail."""
        order = data.draw(st.permutations(sorted(self.lives[name].diaries)))
        how = self.world.detection
        self.wrong |= {(name, order[0])}
        self.rounds(how.fall)
        self.wrong -= {(name, order[0])}
        self.rounds(how.rise - 1)
        self.wrong |= {(name, order[-1])}
        self.rounds(1)
        self.wrong -= {(name, order[-1])}

    @rule(zone=st.sampled_from(sorted(ZONES)))
    def zone_dies(self, zone: str) -> None:
        self.up.update(dict.fromkeys(ZONES[zone], False))
        self.rounds(self.world.detection.fall)

    @rule(name=names)
    def node_flaps(self, name: str) -> None:
        before = self.up[name]
        for up in (False, True, False, True):
            self.up[name] = up
            self.rounds(1)
        self.up[name] = before

    @rule(name=names, then_well=st.booleans())
    def node_resists_healing(self, name: str, then_well: bool) -> None:
        """Each try ends badly, until a person is needed; good health later on changes nothing."""
        self.up[name] = False
        for _ in range(RETRY.attempts + 1):
            self.rounds(self.world.detection.fall)
            self.engine_acts()
            if self.world.members[name].recovering:
                self.end(name, well=False)
            self.rounds(int(RETRY.max_backoff_s / self.world.detection.interval_s))
        if then_well:
            self.up[name] = True
            how = self.world.detection
            self.rounds(how.rise + int(RETRY.stable_after_s / how.interval_s) + 1)

    @rule(name=names)
    def node_returns(self, name: str) -> None:
        self.up[name] = True
        self.rounds(self.world.detection.rise)

    @rule(
        how=st.sampled_from(["open", "deaf", "silent"]), references=st.sampled_from([(), (False,)])
    )
    def network_changes(self, how: str, references: tuple[bool, ...]) -> None:
        self.network = how
        self.world.references = references if how != "open" else (True,)
        self.rounds(self.world.detection.fall)

    @rule(name=names, data=st.data(), outcome=st.sampled_from(["pass", "fail", "unknown", "warn"]))
    def answer_is_late(self, name: str, data: st.DataObject, outcome: str) -> None:
        mode = data.draw(st.sampled_from(sorted(self.lives[name].diaries)))
        ago_s = data.draw(st.sampled_from([0, 1, 9, 15, 60, 3600, -60]))
        self.tell(name, mode, outcome, ago_us=ago_s * SECOND)

    @rule(name=names, data=st.data())
    def backend_reports_an_event(self, name: str, data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from(sorted(self.lives[name].diaries)))
        self.tell(name, mode, "fail", authoritative=True, answered=True)

    @rule(seconds=st.sampled_from([-7200, -40, -5, 5, 40, 130, 7200]))
    def clock_steps(self, seconds: int) -> None:
        self.clock(seconds)

    @rule()
    def engine_restarts(self) -> None:
        self.world.resettle()
        for life in self.lives.values():
            life.forget(list(life.diaries))

    @rule(what=st.sampled_from([(), ("prober",), ("database", "late loop")]))
    def dependency_changes(self, what: tuple[str, ...]) -> None:
        self.world.lost = what

    # --- people

    @rule(
        kind=st.sampled_from(["maintenance", "stop"]),
        scope=st.sampled_from(["all", "cluster", "node"]),
        name=names,
        lasts_s=st.sampled_from([None, 30, 90]),
    )
    def operator_pauses(self, kind: str, scope: str, name: str, lasts_s: int | None) -> None:
        now_us = self.world.now_us
        until_us = None if lasts_s is None else now_us + lasts_s * SECOND
        target = {"all": "", "cluster": CLUSTER, "node": name}[scope]
        made = pause(kind, scope, target, starts_us=now_us, expires_us=until_us)
        self.world.pauses = [*self.world.pauses[-2:], made]

    @rule()
    def operator_resumes(self) -> None:
        self.world.pauses = []

    @rule(seconds=st.sampled_from([0, 60]))
    def operator_releases(self, seconds: int) -> None:
        self.world.released_until_us = self.world.now_us + seconds * SECOND

    @rule(name=names)
    def user_marks(self, name: str) -> None:
        self.world.mark(name, Mark(reason="smells", by="ann", at_us=self.world.now_us))

    @rule(name=names)
    def mark_is_a_mistake(self, name: str) -> None:
        """Marked and lifted while a successor still counts afresh."""
        self.user_marks(name)
        self.engine_restarts()
        self.user_lifts_the_mark(name)

    @rule(name=names)
    def user_lifts_the_mark(self, name: str) -> None:
        marked = self.world.members[name].memory.mark is not None
        self.world.mark(name, None)
        sick = self.world.members[name].memory.health is Health.UNHEALTHY
        assert not (marked and sick) or self.lives[name].condemned(self.world.detection)

    @rule(name=names)
    def person_requests(self, name: str) -> None:
        self.world.members[name].requested_by = "ann"

    @rule(name=names)
    def person_acknowledges(self, name: str) -> None:
        self.world.members[name].retry = FRESH
        self.lives[name].tries = 0
        self.exhausted.discard(name)

    @rule(name=names, busy=st.booleans())
    def user_acts(self, name: str, busy: bool) -> None:
        if not self.world.members[name].recovering:
            self.world.members[name].busy = "NODE_UPDATE" if busy else ""

    # --- the engine

    @rule()
    def engine_acts(self) -> None:
        """Plan and admit; every word of it must be what the twin would have said."""
        before = self.world.view()
        requested = {n.node_id for n in before.nodes if n.requested_by}
        for decision in self.world.act():
            if isinstance(decision, Recover):
                self._count_admission(decision, asked=decision.node_id in requested)

    def _count_admission(self, decision: Recover, *, asked: bool) -> None:
        life = self.lives[decision.node_id]
        if R.NEEDS_HUMAN in decision.overrode:
            assert asked
            life.tries = 0
            self.exhausted.discard(decision.node_id)
        life.tries += 1
        self.admitted += 1
        assert life.tries <= RETRY.attempts, "tried more often than allowed"

    def _recovering(self) -> list[str]:
        return sorted(n for n, m in self.world.members.items() if m.recovering)

    @precondition(lambda self: self._recovering())
    @rule(data=st.data(), well=st.booleans(), lasting=st.booleans())
    def recovery_ends(self, data: st.DataObject, well: bool, lasting: bool) -> None:
        name = data.draw(st.sampled_from(self._recovering()))
        self.end(name, well=well)
        self.up[name] = well and lasting
        self.rounds(self.world.detection.fall)

    @rule()
    def healing_is_quick(self) -> None:
        """Recoveries end as soon as they begin: only the budget slows what the caps let through."""
        for _ in range(3):
            self.engine_acts()
            for name in self._recovering():
                self.end(name, well=True)

    def end(self, name: str, *, well: bool) -> None:
        self.world.end(name, well=well)
        if self.world.members[name].retry.exhausted_us is not None:
            self.exhausted.add(name)
        if well:
            self.up[name] = True
            self.lives[name].forget(list(self.lives[name].diaries))
            self.lives[name].born_us = self.world.now_us

    # --- what always holds

    @invariant()
    def every_decision_is_what_the_twin_says(self) -> None:
        view, now_us = self.world.view(), self.world.now_us
        self._twin_notices()
        planned = decisions(view, now_us)
        self._same_view_same_plan(view, planned)
        self._each_has_one_decision(view, planned)
        is_blind = blind(self.lives, self.world.references)
        nodes = {n.node_id: n for n in view.nodes}
        started: set[str] = set()
        for decision in planned:
            node = nodes[decision.node_id]
            found = reasons(view, node, started, is_blind=is_blind, now_us=now_us)
            standing = [reason for reason in found if not lifted(node, reason)]
            if isinstance(decision, Hold):
                assert standing[:1] == [decision.reason], (decision, found)
            else:
                assert not standing, (decision, standing)
                assert decision.overrode == tuple(found), decision
                started.add(decision.node_id)
        self._settled_verdicts_are_what_the_diary_says()

    def _same_view_same_plan(self, view: ClusterView, planned: tuple[Decision, ...]) -> None:
        """Deciding is a function of the view, and the order of its nodes is no part of it."""
        turned = replace(view, nodes=view.nodes[::-1])
        assert decisions(turned, self.world.now_us) == planned

    def _each_has_one_decision(self, view: ClusterView, decisions: tuple[Decision, ...]) -> None:
        wanted = [
            n.node_id
            for n in view.nodes
            if not n.recovering and (n.health is Health.UNHEALTHY or n.requested_by)
        ]
        assert sorted(d.node_id for d in decisions) == sorted(wanted)

    def _settled_verdicts_are_what_the_diary_says(self) -> None:
        now_us, how = self.world.now_us, self.world.detection
        for name, life in self.lives.items():
            memory = self.world.members[name].memory
            if memory.mark is not None:
                assert memory.health is Health.UNHEALTHY
                continue
            condemned = life.condemned(how)
            if memory.health is Health.UNHEALTHY and memory.settled:
                assert condemned, (name, life)
                assert not life.surely_in_grace(how, now_us), (name, life)
            else:
                assert not condemned or life.born_us is not None, (name, life, memory)
            if memory.health is Health.HEALTHY and memory.settled:
                heard = [d.last_us is not None for d in life.diaries.values()]
                assert any(heard), f"{name} is called healthy, and nobody has heard of it"

    @invariant()
    def only_a_person_ends_exhaustion(self) -> None:
        for name in self.exhausted:
            assert self.world.members[name].retry.exhausted_us is not None, name

    @invariant()
    def caps_and_budgets_hold(self) -> None:
        in_flight = len(self._recovering())
        assert in_flight <= self.world.recovery.limits.max_in_flight
        assert in_flight <= BUDGET.max_in_flight
        earned = BUDGET.per_hour / 3600 * self.forward_us / SECOND
        assert self.admitted <= BUDGET.burst + earned + 1e-6
        assert all(m.retry.attempts <= RETRY.attempts for m in self.world.members.values())

    # --- what comes about in the end

    def teardown(self) -> None:
        """The weather clears: in bounded time each node is well, or held for a true, lasting reason."""
        if not hasattr(self, "world"):
            return
        self._weather_clears()
        quiet = 0
        for _ in range(self._bound()):
            self.rounds(1)
            for name in self._recovering():
                self.end(name, well=True)
            decided = self.world.act()
            quiet = quiet + 1 if self._is_quiet(decided) else 0
            if quiet > 3:
                break
        else:
            raise AssertionError(f"not at rest in {self._bound()} rounds: {self._loose_ends()}")
        self.every_decision_is_what_the_twin_says()

    def _weather_clears(self) -> None:
        world = self.world
        self.network, world.lost = "open", ()
        self.wrong.clear()
        world.references = ()
        for member in world.members.values():
            if not member.recovering:
                member.busy = ""
        # A wrong clock is put right by the time that has really passed.
        latest = max(
            [
                world.now_us,
                *(d.last_us or 0 for x in self.lives.values() for d in x.diaries.values()),
            ]
        )
        self.clock((latest - world.now_us) / SECOND)

    def _bound(self) -> int:
        """Rounds until rest: each attempt takes its rest, grace, a verdict, and a token of the budget."""
        how = self.world.detection
        verdict_s = (how.fall + how.rise) * how.interval_s
        stale_s = max(stale_after_us(m, how) for m in how.modes) / SECOND
        one_try_s = RETRY.max_backoff_s + how.node_update_timeout_s + verdict_s + stale_s
        tries = len(NAMES) * (RETRY.attempts + 1)
        tokens_s = tries * 3600 / BUDGET.per_hour
        pauses_s = 90 + 7200  # the longest pause, and the furthest the clock was set back
        return int((tries * one_try_s + tokens_s + pauses_s) / how.interval_s) + 20

    def _is_quiet(self, decisions: tuple[Decision, ...]) -> bool:
        """Nothing moves: everybody is well, or is held by something that only a hand can change."""
        holds = {d.node_id: d for d in decisions if isinstance(d, Hold)}
        if len(holds) != len(decisions) or self._recovering():
            return False
        return all(
            member.memory.health is Health.HEALTHY
            or (
                name in holds
                and holds[name].reason in NEEDS_A_HAND
                and holds[name].until_us is None
            )
            for name, member in self.world.members.items()
        )

    def _loose_ends(self) -> list[str]:
        return [
            f"{n}={m.memory.health} {m.retry} {m.memory.tracks}"
            for n, m in self.world.members.items()
        ]


TestCluster = Cluster.TestCase
TestCluster.settings = weather(examples=150, steps=30)
