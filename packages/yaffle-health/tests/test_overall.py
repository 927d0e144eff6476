"""The overall status: the contract's rules as a table, and as a model beside the real manager."""

from __future__ import annotations

import datetime as dt

import pytest
from health_clocks import Clocks
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from yaffle_health.model import Check, Status
from yaffle_health.overall import overall

PASS, WARN, FAIL = Status.PASS, Status.WARN, Status.FAIL


def check(word: str) -> Check:
    """`fail!` is an expired item whose last word was fail."""
    expired, status = word.endswith("!"), Status(word.rstrip("!"))
    return Check(
        name=word,
        status=WARN if expired else status,
        time=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        age_s=0,
        expired=expired,
        last_status=status,
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("", PASS, id="1 no items: pass"),
        pytest.param("pass fail", FAIL, id="2 a live failure: fail"),
        pytest.param("fail warn pass!", FAIL, id="2 before 4"),
        pytest.param("pass!", FAIL, id="3 everything expired: fail"),
        pytest.param("pass! warn! fail!", FAIL, id="3 whatever was said last"),
        pytest.param("pass warn", WARN, id="4 a live warning: warn"),
        pytest.param("pass pass!", WARN, id="4 something expired: warn"),
        pytest.param("pass fail!", WARN, id="4 an expired failure is unknown: warn"),
        pytest.param("warn pass!", WARN, id="4 both"),
        pytest.param("pass", PASS, id="5 otherwise pass"),
        pytest.param("pass pass", PASS, id="5 all of them"),
    ],
)
def test_the_rules(words: str, expected: Status) -> None:
    assert overall([check(word) for word in words.split()]) is expected


def test_fail_is_503_and_nothing_else_is() -> None:
    assert {status: status.http_status for status in Status} == {PASS: 200, WARN: 200, FAIL: 503}


NAMES = st.sampled_from(["a", "b", "c"])
STATUSES = st.sampled_from(list(Status))


class HealthModel(RuleBasedStateMachine):
    """A dumb twin: a dict of (status, monotonic time, time to live), judged by counting."""

    def __init__(self) -> None:
        super().__init__()
        self.clocks = Clocks()
        self.manager = self.clocks.manager(ttl_s=300)
        self.manager.register("c", ttl_s=50)
        self.said: dict[str, tuple[Status, float]] = {}
        self.ttl = {"a": 300.0, "b": 300.0, "c": 50.0}

    @rule(name=NAMES, status=STATUSES)
    def report(self, name: str, status: Status) -> None:
        self.manager.report(name, status, "why")
        self.said[name] = (status, self.clocks.mono)

    @rule(name=NAMES)
    def decorated_function_returns(self, name: str) -> None:
        source = self.manager.source(name)
        source.passed_at = source.now()
        self.said[name] = (PASS, self.clocks.mono)

    @rule(name=NAMES, ttl=st.sampled_from([0, 10, 1000]))
    def report_with_its_own_time_to_live(self, name: str, ttl: float) -> None:
        self.manager.passed(name, ttl_s=ttl)
        self.said[name], self.ttl[name] = (PASS, self.clocks.mono), ttl

    @rule(seconds=st.sampled_from([0.001, 9, 49, 50, 51, 299, 300, 301, 5000]))
    def time_passes(self, seconds: float) -> None:
        self.clocks.mono += seconds

    @rule(seconds=st.sampled_from([-(10**6), 10**6]))
    def the_wall_clock_steps(self, seconds: float) -> None:
        self.clocks.wall += seconds

    @rule()
    def everything_goes_quiet(self) -> None:
        self.clocks.mono += 10**5

    @rule(soon=st.booleans())
    def reset(self, soon: bool) -> None:
        if soon:
            self.clocks.mono += 0.001
            self.manager.reset_soon()
        else:
            self.manager.reset()
        self.said.clear()
        self._default_ttls()

    @rule(name=NAMES)
    def unregister(self, name: str) -> None:
        self.manager.unregister(name)
        self.said.pop(name, None)
        # The declaration goes with it.
        self.ttl[name] = 300.0

    def _default_ttls(self) -> None:
        declared = {d.name: d.ttl_s or 0.0 for d in self.manager._declared.values()}
        self.ttl = {name: declared.get(name, 300.0) for name in self.ttl}

    def expected(self) -> Status:
        if not self.said:
            return PASS
        live, expired = [], 0
        for name, (status, at) in self.said.items():
            if self.ttl[name] and self.clocks.mono - at > self.ttl[name]:
                expired += 1
            else:
                live.append(status)
        if FAIL in live or not live:
            return FAIL
        return WARN if WARN in live or expired else PASS

    @invariant()
    def agrees(self) -> None:
        health = self.manager.health()
        assert health.status is self.expected()
        assert {c.name: c.last_status for c in health.checks} == {
            name: status for name, (status, _) in self.said.items()
        }
        for each in health.checks:
            assert (each.output is None) == (each.status is PASS)
            assert each.expired <= (each.status is WARN)

    @invariant()
    def the_next_expiry_is_when_something_changes(self) -> None:
        left = self.manager.health().next_expiry_s
        assert left is None or left >= 0


TestHealthModel = HealthModel.TestCase
TestHealthModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
