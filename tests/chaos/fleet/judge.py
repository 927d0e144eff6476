"""Puts a finished history before every rule, and gathers that history from what was seen of a fleet."""

from __future__ import annotations

from collections.abc import Sequence

from tests.chaos.fleet import rules_acts, rules_care, rules_decided
from tests.chaos.fleet.evidence import Deed, History
from tests.chaos.fleet.lab import Fleet
from tests.chaos.fleet.observer import Observer

from yaffle.model.bounds import DECIDE_S
from yaffle.policy import parse

RULES = (*rules_acts.RULES, *rules_care.RULES, *rules_decided.RULES)
TABLES = ("actions", "steps", "proofs", "incidents", "decisions", "events", "outbox")
SHOWN = 40
"""Faults of one history that are printed; more would hide the first."""


def faults(history: History) -> list[str]:
    """Return every broken rule, named."""
    return [f"{rule.__name__}: {fault}" for rule in RULES for fault in rule(history)][:SHOWN]


def printed_detect_s(document: str) -> float:
    """Return what the policy is printed to take until a failure is decided on."""
    found = parse(document).arithmetic
    assert found is not None
    assert found.detect_s is not None
    return found.detect_s + DECIDE_S


def history_of(
    fleet: Fleet, observer: Observer, deeds: Sequence[Deed], *, document: str
) -> History:
    """Gather what is known, once everything is calm again."""
    order = {"decisions": "seq", "events": "seq", "outbox": "seq", "steps": "action_id, seq"}
    return History(
        lease_s=fleet.lease,
        detect_s=printed_detect_s(document),
        looks=tuple(observer.looks),
        changes=tuple(observer.changes),
        sights=tuple(observer.sights),
        late=tuple(observer.late),
        deeds=tuple(deeds),
        engines={name: tuple(engine.conditions) for name, engine in fleet.engines.items()},
        pids={pid: name for name, engine in fleet.engines.items() for pid in engine.pids},
        made=tuple(fleet.diaries.made()),
        violations=tuple(fleet.diaries.violations()),
        arrived_us=dict(fleet.receiver.arrived_us),
        forged=tuple(fleet.receiver.forged),
        falls=tuple(fleet.falls()),
        tables={
            table: fleet.rows(f"select * from {table} order by {order.get(table, 'id')}")
            for table in TABLES
        },
    )
