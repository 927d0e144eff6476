"""What crosses over to the helper is what was told: every face of it is the same."""

from __future__ import annotations

import datetime as dt
import enum
import marshal

import pytest
from test_responder import CHECK, HEALTH, SEEN, TYPED, changed

from yaffle_health.apart.plain import Row, plain, restored
from yaffle_health.model import Check, Health, Service, Status
from yaffle_health.views import Shape, render, shown


class Name(enum.StrEnum):
    DB = "db"


def over(health: Health, later_s: float = 0.0) -> Health:
    return restored(marshal.loads(marshal.dumps(plain(health, 1000.0, {}))), 1000.0 + later_s)


@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize("change", [{}, *SEEN, *TYPED, {"name": Name.DB}, {"output": "\udcff"}])
def test_every_face_is_the_same(change: dict[str, object], shape: Shape) -> None:
    health = changed(change)
    assert render(over(health), shape) == render(health, shape)
    assert shown(over(health)) == shown(health)


def test_times_are_the_same_to_the_microsecond() -> None:
    for microsecond in (0, 1, 499_999, 500_000, 999_999):
        at = dt.datetime(2026, 11, 20, 23, 59, 59, microsecond, tzinfo=dt.UTC)
        assert over(changed({"time": at})).checks[0].time == at


def test_who_speaks_is_the_same() -> None:
    service = Service(service_id="i", description=Name.DB, host="h", hostname="v", release="31.0.0")
    health = Health(status=Status.PASS, service=service)
    assert over(health) == health


def test_ages_go_on() -> None:
    found = over(HEALTH, later_s=2.5)
    assert found.checks[0].age_s == pytest.approx(CHECK.age_s + 2.5)
    assert HEALTH.next_expiry_s == 30.0
    assert found.next_expiry_s == pytest.approx(27.5)
    assert over(HEALTH, later_s=60).next_expiry_s == 0


def test_what_several_groups_show_is_there_once() -> None:
    known: dict[Row, Row] = {}
    many = tuple(
        Check(name=f"n{n}", status=Status.WARN, time=CHECK.time, age_s=1.0, output="x" * 200)
        for n in range(100)
    )
    health = Health(status=Status.WARN, service=HEALTH.service, checks=many)
    one = len(marshal.dumps([plain(health, 5.0, known)]))
    # Told a moment later, and so younger by nothing that counts.
    both = len(marshal.dumps([plain(health, 5.0, known), plain(health, 5.0001, known)]))
    assert both < 1.2 * one
