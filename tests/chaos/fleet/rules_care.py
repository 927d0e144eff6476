"""Care, judged from outside: nothing unwatched, no failure lost, no grace begun again, all news told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.chaos import receiver
from tests.chaos.fleet.evidence import CUT_OFF, SECOND, History, Holder, Look, Row, Span

ALLOWED_S = 1.0
"""A takeover takes a lease and this; what the machine itself was late comes on top."""
EXCUSED_MAX = 4.0
NEAR_US = 3 * SECOND
PACE_US = 100_000


@dataclass(frozen=True, slots=True)
class _Orphan:
    """A key that nobody able holds."""

    since_us: int
    why: str
    extra_s: float = 0.0
    """What it takes to find out, beside a lease."""


def uncovered(history: History) -> Iterator[str]:
    """Each cluster is watched by an able engine, but for a lease and a second after a failure."""
    yield from _orphans(history, lambda look: look.watches, "cluster")


def not_taken_over(history: History) -> Iterator[str]:
    """Each action under way is carried on by an able engine a lease and a second after a failure."""
    yield from _orphans(history, lambda look: look.running, "action")


def _orphans(
    history: History, held: Callable[[Look], Mapping[str, Holder]], what: str
) -> Iterator[str]:
    """Follow each key from look to look; say which were without an able holder for too long."""
    orphans: dict[str, _Orphan] = {}
    floor_us = 0
    for look in history.looks:
        present = held(look) if look.db_us is not None else {}
        found = {k: _orphaned(history, look, look.db_us or 0, h) for k, h in present.items()}
        for key in [k for k in orphans if found.get(k) is None]:
            yield from _verdict(history, f"{what} {key}", orphans.pop(key), look.at_us)
        if look.db_us is None:
            floor_us = look.at_us + PACE_US  # while it is away nobody can take anything
        for key, orphan in found.items():
            if orphan is not None and key not in orphans:
                since_us = max(orphan.since_us, floor_us)
                orphans[key] = dataclasses.replace(orphan, since_us=since_us)
    for key, orphan in orphans.items():
        yield from _verdict(history, f"{what} {key}", orphan, history.looks[-1].at_us)


def _verdict(history: History, label: str, orphan: _Orphan, end_us: int) -> Iterator[str]:
    """Say so where it took too long, and somebody able was there all the time that it may take."""
    span = Span(orphan.since_us, end_us)
    due_s = history.lease_s + orphan.extra_s + ALLOWED_S
    # A machine that is too busy excuses much, and not everything.
    late_s = min(history.late_s(span.begin_us, span.end_us), EXCUSED_MAX * due_s)
    allowed_s = due_s + late_s
    if span.s <= allowed_s:
        return
    # Whoever could have taken it may have failed, and another one after it.
    due_us = span.begin_us + int(allowed_s * SECOND)
    if history.anybody(span.begin_us, due_us):
        yield f"{label}: nobody able had it, for {orphan.why}, {span}; {late_s:.2f} s of it excused"


def _orphaned(history: History, look: Look, db_us: int, holder: Holder) -> _Orphan | None:
    """Return since when nobody able has held it, and why; None where somebody does."""
    session = look.sessions.get(holder.owner)
    if session is None or session.stopped_us is not None:
        return _Orphan(look.at_us, "it was given up")
    name = history.pids.get(session.pid, "")
    if unable := history.unable(name, look.at_us):
        extra_s = history.detect_s if unable[0].word == CUT_OFF else 0.0
        return _Orphan(unable[0].at_us, f"{name} was {unable[0].word}", extra_s)
    # Able, and yet its lease has run out: nobody would act on a failure now.
    return _Orphan(holder.lease_us, f"{name}'s lease is over") if holder.lease_us < db_us else None


def grace_begun_again(history: History) -> Iterator[str]:
    """Grace begins with a change of the node's life; that another engine took over is none."""
    busy = _busy_nodes(history)
    for change in history.changes:
        before, after = change.before, change.after
        if change.table != "nodes" or before is None or after["grace_us"] is None:
            continue
        same_life = all(before[k] == after[k] for k in ("physical_id", "cluster_id", "made_us"))
        if before["grace_us"] == after["grace_us"] or not same_life:
            continue
        at_us = history.looks[change.look].at_us
        if not any(
            s.begin_us - NEAR_US < at_us < s.end_us + NEAR_US for s in busy.get(change.key, ())
        ):
            yield f"{after['name']}: grace began again at {at_us / SECOND:.3f} for no reason of its own"


def _busy_nodes(history: History) -> Mapping[str, Sequence[Span]]:
    """Return when some action worked on each node, as seen."""
    began: dict[str, tuple[str, int]] = {}
    found: dict[str, list[Span]] = {}
    for change in history.changes:
        if change.table != "actions" or not change.after["node_id"]:
            continue
        at_us, node = history.looks[change.look].at_us, str(change.after["node_id"])
        began.setdefault(change.key, (node, at_us))
        if change.after["end_us"] is not None:
            found.setdefault(node, []).append(Span(began[change.key][1], at_us))
    open_ones = began.keys() - {c.key for c in history.changes if c.after.get("end_us")}
    for key in open_ones:
        node, at_us = began[key]
        found.setdefault(node, []).append(Span(at_us, 2**62))
    return found


# --- failures ----------------------------------------------------------------------------------


def lost_failures(history: History) -> Iterator[str]:
    """Whoever is dark for longer than is printed, undisturbed, has an incident or is being healed."""
    bound_s = history.detect_s + history.lease_s + ALLOWED_S
    known = _known_nodes(history)
    for name, span in _dark(history):
        ids = known.get(name, {})
        for calm in history.calm(span):
            if calm.s < bound_s + history.late_s(calm.begin_us, calm.end_us):
                continue
            # A node may be made anew under the same name; what is gone is nobody's failure.
            there = [i for i, life in ids.items() if _covers(life, calm, bound_s)]
            if there and not any(_cared_for(history, ident, span) for ident in there):
                yield f"{name}: dark {span}, calm {calm}, bound {bound_s:.1f} s, and no incident"


def _covers(life: Span, calm: Span, bound_s: float) -> bool:
    begin_us, end_us = max(life.begin_us, calm.begin_us), min(life.end_us, calm.end_us)
    return end_us - begin_us >= bound_s * SECOND


def _known_nodes(history: History) -> Mapping[str, Mapping[str, Span]]:
    """Return, by name, each node's id and when it was watched: made once, and not being deleted."""
    found: dict[str, dict[str, Span]] = {}
    for change in history.changes:
        if change.table != "nodes":
            continue
        row, at_us = change.after, history.looks[change.look].at_us
        lives = found.setdefault(row["name"], {})
        if change.key not in lives and row["made_us"] is not None:
            lives[change.key] = Span(at_us, 2**62)
        if row["status"] == "DELETING" and change.key in lives:
            lives[change.key] = Span(lives[change.key].begin_us, at_us)
    return found


def _dark(history: History) -> Iterator[tuple[str, Span]]:
    """Yield when no process of a node could answer."""
    dark: dict[str, int] = {}
    seen: set[str] = set()
    for sight in history.sights:
        lit = {n for n, found in sight.nodes.items() if any(state == "R" for _, state in found)}
        for name in seen - lit:
            dark.setdefault(name, sight.at_us)
        for name in lit & dark.keys():
            yield name, Span(dark.pop(name), sight.at_us)
        seen |= lit
    end_us = history.looks[-1].at_us if history.looks else 0
    for name, begin_us in dark.items():
        yield name, Span(begin_us, end_us)


def _cared_for(history: History, ident: str, span: Span) -> bool:
    for row in history.tables.get("incidents", ()):
        if row["node_id"] == ident and _overlaps(row["opened_us"], row["ended_us"], span):
            return True
    return any(
        row["node_id"] == ident and _overlaps(row["created_us"], row["end_us"], span)
        for row in history.tables.get("actions", ())
    )


def _overlaps(begin_us: int, end_us: int | None, span: Span) -> bool:
    return begin_us < span.end_us + NEAR_US and (end_us or 2**62) > span.begin_us - NEAR_US


# --- news ------------------------------------------------------------------------------------------


def ended_by_itself(history: History) -> Iterator[str]:
    """Whatever happens to an engine or to what it needs, it goes on, or is killed by somebody."""
    yield from history.falls


def untold(history: History) -> Iterator[str]:
    """Each change of an incident has one message, it was accepted, and it did arrive."""
    yield from history.forged
    messages: dict[int, list[Row]] = {}
    for row in history.tables.get("outbox", ()):
        messages.setdefault(row["event_seq"], []).append(row)
    opened: set[str] = set()
    for event in history.tables.get("events", ()):
        if event["action"] != "INCIDENT":
            continue
        mine = messages.get(event["seq"], [])
        # Going back to `open` for another attempt is no news.
        again = event["status"] == "open" and event["incident_id"] in opened
        opened.add(event["incident_id"])
        label = f"{event['oname']} {event['status']}"
        if len(mine) != 1 and not (again and not mine):
            yield f"{label}: {len(mine)} messages"
        for message in mine:
            if message["state"] != "accepted":
                yield f"{label}: {message['state']}, {message['last_error']}"
            elif message["id"] not in history.arrived_us:
                yield f"{label}: said to be accepted, never arrived"


def silent_incidents(history: History) -> Iterator[str]:
    """Each incident was told to be open, and to be what it came to."""
    states: dict[str, list[str]] = {}
    for event in history.tables.get("events", ()):
        if event["action"] == "INCIDENT":
            states.setdefault(event["incident_id"], []).append(event["status"])
    for incident in history.tables.get("incidents", ()):
        told = states.get(incident["id"], [])
        if told[:1] != ["open"] or told[-1] != incident["state"]:
            yield f"incident of {incident['node_name']} is {incident['state']}, told: {told}"


def overtaken(history: History) -> Iterator[str]:
    """No news of an incident overtakes other news of it; a database that went back tells anew."""
    if not any(deed.what == "went back" for deed in history.deeds):
        yield from receiver.overtaken(history.news, history.tables.get("incidents", ()))


RULES = (
    uncovered,
    not_taken_over,
    grace_begun_again,
    lost_failures,
    untold,
    overtaken,
    silent_incidents,
    ended_by_itself,
)
