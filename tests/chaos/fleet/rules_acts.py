"""Safety, judged from outside: nothing twice, by an old hand, without a lease, or blindly."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.chaos.diary import Made
from tests.chaos.fleet.evidence import SECOND, Change, Deed, History, Look, Row, Session

WRITE_US = 1_500_000
"""A write that began within the lease may be seen so much later: a group waits for its turn."""
BLIND_US = 2_500_000
"""What had been handed to a driver when the database went away may still come about."""
ENDS = frozenset({"killed", "quit", "started"})
"""States of an engine in which its process is gone, or is another one."""


def two_copies(history: History) -> Iterator[str]:
    """One node, one process: by the nodes' own locks, and by what the kernel shows."""
    yield from history.violations
    for sight in history.sights:
        for name, found in sight.nodes.items():
            if len(found) > 1:
                yield f"{name}: {len(found)} copies at {sight.at_us / SECOND:.3f}: {found}"


def done_twice(history: History) -> Iterator[str]:
    """No operation starts two processes, none is two steps, and no action is fenced twice."""
    starts = Counter((m.name, m.operation) for m in history.made if m.operation != "-")
    for (name, operation), count in starts.items():
        if count > 1:
            yield f"{name}: operation {operation} started {count} processes"
    steps = history.tables.get("steps", ())
    named = Counter(s["operation_id"] for s in steps if s["operation_id"])
    for operation, count in named.items():
        if count > 1:
            yield f"operation {operation} is {count} steps"
    proofs = Counter((p["action_id"], p["method"]) for p in history.tables.get("proofs", ()))
    for (action, method), count in proofs.items():
        if count > 1:
            yield f"action {action}: {count} proofs by {method}"


def old_hand(history: History) -> Iterator[str]:
    """Nobody writes a step of an action that somebody else had, before and after."""
    epochs, begins = _epochs(history), _first_looks(history)
    for change in history.changes:
        if change.table != "steps" or change.look in begins:
            continue
        action, epoch = str(change.after["action_id"]), int(change.after["epoch"])
        before, after = (_at(epochs.get(action, ()), change.look - n) for n in (1, 0))
        if before == after and before not in {None, epoch}:
            yield (
                f"step {change.key} {change.after['stage']} {change.after['phase']} written under"
                f" epoch {epoch} at {history.looks[change.look].at_us / SECOND:.3f}, while the action"
                f" was carried out under epoch {before}"
            )


def _epochs(history: History) -> Mapping[str, Sequence[tuple[int, int | None]]]:
    """Return, for each action, from which look on it was carried out under which epoch."""
    found: dict[str, list[tuple[int, int | None]]] = {}
    era = -1
    for change in history.changes:
        look = history.looks[change.look]
        if look.era != era:  # what is known of an action may be older than what was known before
            era = look.era
            for known in found.values():
                known.append((change.look, None))
        if change.table == "actions":
            running = change.after["status"] == "RUNNING"
            epoch = int(change.after["epoch"]) if running else None
            found.setdefault(str(change.after["id"]), []).append((change.look, epoch))
    return found


def _first_looks(history: History) -> frozenset[int]:
    """Return the looks that found every row new: the first of all, and the first after going back."""
    found: dict[int, int] = {}
    for change in history.changes:
        found.setdefault(history.looks[change.look].era, change.look)
    return frozenset({0, *found.values()})


def _at(epochs: Sequence[tuple[int, int | None]], look: int) -> int | None:
    return next((epoch for since, epoch in reversed(epochs) if since <= look), None)


def acted_without_lease(history: History) -> Iterator[str]:
    """An action is taken, and a process is started, only under a lease that was good about then.

    What is written of a step is no act: before the act itself the engine looks at its own lease.
    """
    lease_us = int(history.lease_s * SECOND)
    for change in history.changes:
        if change.look == 0 or not _taken(change):
            continue
        before, after = history.looks[change.look - 1], history.looks[change.look]
        epoch = int(change.after["epoch"])
        if before.era != after.era:  # it was taken in the state that was put back
            continue
        if _dead(before, epoch, lease_us) and _dead(after, epoch, lease_us):
            yield (
                f"action {change.key} taken by epoch {epoch} at {after.at_us / SECOND:.3f},"
                " whose lease was over"
            )
    for made in history.made:
        epoch = _asked_by(history, made)
        look = _last(history.looks, made.at_us)
        if (
            look is not None
            and _dead(look, epoch, lease_us)
            and not _was_frozen(history, look, epoch)
        ):
            yield (
                f"{made.name}: pid {made.pid} started at {made.at_us / SECOND:.3f} by epoch {epoch},"
                " whose lease was over"
            )


def _taken(change: Change) -> bool:
    after = change.after
    running = change.table == "actions" and after["status"] == "RUNNING"
    return running and _hand(change.before) != _hand(after)


def _hand(row: Row | None) -> object:
    return None if row is None else (row["owner"], row["epoch"])


def _asked_by(history: History, made: Made) -> int:
    """Return the epoch that had the operation of a process in hand when it began.

    Whoever takes a submitted step over submits it again under the same id, if nothing came of it,
    and writes only its claim of the action before: the later of both is who asked.
    """
    found, action = 0, ""
    claims: dict[str, int] = {}
    for change in history.changes:
        if history.looks[change.look].at_us > made.at_us:
            break
        if change.table == "actions":
            claims[change.after["id"]] = int(change.after["epoch"])
        if change.table == "steps" and change.after["operation_id"] == made.operation:
            found, action = int(change.after["epoch"]), change.after["action_id"]
    return max(found, claims.get(action, 0))


def _last(looks: Sequence[Look], at_us: int) -> Look | None:
    number = bisect.bisect_right(looks, at_us, key=lambda look: look.at_us)
    return looks[number - 1] if number else None


def _was_frozen(history: History, look: Look, epoch: int) -> bool:
    """Whether the engine stood still since it last renewed: one call may have begun before that."""
    session = _of(look.sessions, epoch)
    if session is None:
        return False
    states = history.engines.get(history.pids.get(session.pid, ""), ())
    return any(s.word == "frozen" and s.at_us > session.seen_us - SECOND for s in states)


def _dead(look: Look, epoch: int, lease_us: int) -> bool:
    """Whether the engine of an epoch had certainly lost its lease by that look."""
    if look.db_us is None:
        return False
    session = _of(look.sessions, epoch)
    if session is None:
        return False
    if session.stopped_us is not None:
        return session.stopped_us + WRITE_US < look.db_us
    return session.seen_us + lease_us + WRITE_US < look.db_us


def _of(sessions: Mapping[str, Session], epoch: int) -> Session | None:
    return next((s for s in sessions.values() if s.epoch == epoch), None)


def began_after_its_end(history: History) -> Iterator[str]:
    """No process is started for an operation that was over, or for an action that was."""
    ended: dict[str, list[int]] = {}
    actions_of: dict[str, str] = {}
    for change in history.changes:
        row, at_us = change.after, history.looks[change.look].at_us
        if change.table == "steps" and row["operation_id"]:
            actions_of[row["operation_id"]] = row["action_id"]
            if row["ended_us"] is not None:
                ended.setdefault(row["operation_id"], []).append(at_us)
        if change.table == "actions" and row["end_us"] is not None:
            ended.setdefault(row["id"], []).append(at_us)
    for made in history.made:
        ends = ended.get(made.operation, []) + ended.get(actions_of.get(made.operation, ""), [])
        known = [at_us for at_us in ends if not _forgotten(history, at_us, made.at_us)]
        if known and made.at_us > (limit := min(known)) + WRITE_US:
            over_s = (made.at_us - limit) / SECOND
            yield (
                f"{made.name}: pid {made.pid} started at {made.at_us / SECOND:.3f} for operation"
                f" {made.operation}, which was over for {over_s:.2f} s"
            )


def _forgotten(history: History, written_us: int, at_us: int) -> bool:
    """Whether the database went back, before `at_us`, to what it was before that was written."""
    return any(
        _kept(history, back).at_us <= written_us <= back.end_us and back.at_us <= at_us
        for back in history.deeds
        if back.what == "went back"
    )


def _kept(history: History, back: Deed) -> Deed:
    """Return when the state was kept that was put back; without a word of it that is long ago."""
    kept = [d for d in history.deeds if d.what == "database kept" and d.at_us <= back.at_us]
    return max(kept, key=lambda d: d.at_us, default=Deed(0, "database kept"))


def acted_blindly(history: History) -> Iterator[str]:
    """After the database went back, a stop is set, and nothing is started until it is lifted."""
    for deed in history.deeds:
        if deed.what != "went back":
            continue
        lifted_us = min(
            (d.at_us for d in history.deeds if d.what == "lifted" and d.at_us > deed.end_us),
            default=2**62,
        )
        for made in history.made:
            if not deed.at_us + BLIND_US < made.at_us < lifted_us:
                continue
            if _known_to_somebody(history, deed, made.at_us):
                yield f"{made.name}: started at {made.at_us / SECOND:.3f}, after the database went back"
        seen = [k for k in history.looks if deed.end_us < k.at_us < lifted_us and k.db_us]
        # Only who had seen the turns that are gone can know that they are.
        knowing = bool(seen) and history.anybody(deed.at_us, seen[-1].at_us)
        if knowing and seen[-1].at_us - deed.end_us > 5 * SECOND and not seen[-1].stopped:
            yield f"the database went back at {deed.at_us / SECOND:.3f}, and no stop was set"


def _known_to_somebody(history: History, back: Deed, until_us: int) -> bool:
    """Whether some process that had written what is gone was there until then, or a stop was set."""
    kept = _kept(history, back)
    for look in history.looks:
        if look.stopped and back.end_us < look.at_us <= until_us:
            return True
        if not max(kept.at_us, kept.end_us) < look.at_us <= back.at_us:
            continue
        for session in look.sessions.values():
            name = history.pids.get(session.pid, "")
            wrote = session.stopped_us is None and session.seen_us > kept.end_us
            if wrote and not _replaced(history, name, look.at_us, until_us):
                return True
    return False


def _replaced(history: History, name: str, after_us: int, until_us: int) -> bool:
    """Whether an engine's process ended in that time."""
    states = history.engines.get(name, ())
    return any(s.word in ENDS and after_us < s.at_us <= until_us for s in states)


RULES = (
    two_copies,
    done_twice,
    old_hand,
    acted_without_lease,
    began_after_its_end,
    acted_blindly,
)
