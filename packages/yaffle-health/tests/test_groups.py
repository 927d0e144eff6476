"""Groups: what a liveness, a readiness and a startup probe ask about (pitfall 15)."""

from __future__ import annotations

import pytest
from health_clocks import Clocks

from yaffle_health import Manager, Status
from yaffle_health.errors import UnknownGroup

PASS, WARN, FAIL = Status.PASS, Status.WARN, Status.FAIL


def seen(manager: Manager, group: str | None) -> list[str]:
    return [check.name for check in manager.health(group).checks]


def test_a_dependency_that_fails_makes_nobody_restart_the_process() -> None:
    manager = Manager()
    manager.report("database", FAIL, "refused")
    assert manager.health("live").status is PASS
    assert manager.health("start").status is PASS
    assert manager.health("ready").status is FAIL
    assert manager.health().status is FAIL


def test_what_is_declared_is_in_its_groups_and_in_ready() -> None:
    manager = Manager()
    manager.register("event_loop", groups=("live",))
    manager.register("migrations", groups=("start",), ttl_s=0)
    for name in ("event_loop", "migrations", "database"):
        manager.passed(name)
    assert seen(manager, "live") == ["event_loop"]
    assert seen(manager, "start") == ["migrations"]
    assert seen(manager, "ready") == ["database", "event_loop", "migrations"] == seen(manager, None)


def test_a_declaration_speaks_for_every_component_without_its_own() -> None:
    manager = Manager()
    manager.register("worker", groups=("live",))
    manager.register("worker", component_id="b", groups=())
    for component in ("a", "b"):
        manager.passed("worker", component_id=component)
    assert [c.component_id for c in manager.health("live").checks] == ["a"]


@pytest.mark.parametrize("group", ["ready", "start"])
def test_what_is_awaited_fails_its_group_until_it_is_heard(group: str) -> None:
    clocks = Clocks()
    manager = clocks.manager()
    manager.register("migrations", groups=(group,))
    clocks.pass_by(7)
    health = manager.health(group)
    assert health.status is FAIL
    assert (health.checks[0].output, health.checks[0].age_s) == (
        "nothing has been heard of it yet",
        7,
    )
    assert manager.health().status is PASS, "the seed: no items is pass"
    assert manager.health("live").status is PASS
    manager.passed("migrations", component_id="any")
    assert manager.health(group).status is PASS
    manager.reset()
    assert manager.health(group).status is FAIL


def test_a_group_with_nothing_in_it_passes() -> None:
    """An item fed by requests is first heard after the first request: waiting for it waits for ever."""
    manager = Manager()
    for group in ("live", "ready", "start"):
        assert manager.health(group).status is PASS


def test_a_live_group_of_stale_items_fails() -> None:
    clocks = Clocks()
    manager = clocks.manager()
    manager.register("loop", groups=("live",), ttl_s=10)
    manager.passed("loop")
    manager.passed("database")
    clocks.pass_by(11)
    assert manager.health("live").status is FAIL
    assert manager.health().status is WARN


def test_a_heart_that_stops_is_a_failure_and_does_not_become_unknown() -> None:
    clocks = Clocks()
    manager = clocks.manager(ttl_s=30)
    manager.register("heart", fail_after_s=5)
    manager.passed("heart")
    assert manager.health().next_expiry_s == 5
    clocks.pass_by(5)
    assert manager.health().status is PASS
    clocks.pass_by(2.25)
    for _ in range(2):
        (check,) = manager.health().checks
        assert (check.status, check.expired, check.last_status) == (FAIL, False, PASS)
        assert (check.output or "").endswith("which is more than 5 s")
        clocks.pass_by(1000)


def test_groups_of_the_services_own() -> None:
    manager = Manager(groups={"ready": ["database"], "storage": ["ceph", "nfs"]})
    manager.register("cache", groups=("fast",))
    for name in ("database", "ceph", "cache"):
        manager.passed(name)
    assert seen(manager, "ready") == ["database"]
    assert seen(manager, "storage") == ["ceph"]
    assert seen(manager, "fast") == ["cache"]
    assert manager.groups == {"live", "ready", "start", "storage", "fast"}


@pytest.mark.parametrize("group", ["readyz", "", "LIVE"])
def test_a_group_that_nobody_declared_is_no_group(group: str) -> None:
    with pytest.raises(UnknownGroup) as caught:
        Manager().health(group)
    assert caught.value.known == ("live", "ready", "start")
