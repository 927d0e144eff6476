"""Puts a finished history before every rule, and gathers that history from what was seen of a fleet."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from tests.chaos.fleet import rules_acts, rules_care, rules_decided
from tests.chaos.fleet.evidence import Deed, History
from tests.chaos.fleet.lab import Fleet
from tests.chaos.fleet.observer import Observer
from tests.chaos.fleet.server import Reader, Row

from yaffle.model.timing import DECIDE_S
from yaffle.policy import parse

RULES = (*rules_acts.RULES, *rules_care.RULES, *rules_decided.RULES)
TABLES = ("actions", "steps", "proofs", "incidents", "decisions", "events", "outbox")
SHOWN = 40
"""Faults of one history that are printed; more would hide the first."""
TOLD_S = 10.0
"""With a bug inside, something may be untold for ever."""
ORDER = {"decisions": "seq", "events": "seq", "outbox": "seq", "steps": "action_id, seq"}


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
    # First: what is said there to be accepted has arrived before.
    tables = tables_of(fleet)
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
        news=tuple(fleet.receiver.news),
        forged=tuple(fleet.receiver.forged),
        falls=tuple(fleet.falls()),
        tables=tables,
    )


def tables_of(fleet: Fleet) -> Mapping[str, Sequence[Row]]:
    """Return all rows of one moment, and of one at which all is told if there soon is one.

    The engines go on: a node that is held up begins a story that would be judged half-told.
    """
    until_s = time.monotonic() + TOLD_S
    while True:
        reader = Reader(fleet.server, fleet.database, patience_s=30)
        try:
            with reader.snapshot():
                found = {
                    table: reader.rows(f"select * from {table} order by {ORDER.get(table, 'id')}")
                    for table in TABLES
                }
        finally:
            reader.close()
        told = all(message["state"] != "pending" for message in found["outbox"])
        if told or time.monotonic() > until_s:
            return found
        time.sleep(0.1)
