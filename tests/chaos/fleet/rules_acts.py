"""Safety, judged from outside: nothing twice, by an old hand, without a lease, or blindly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tests.chaos.fleet.evidence import SECOND, Change, History, Look, Session

WRITE_US = 1_500_000
"""A write that began within the lease may be seen so much later: a group waits for its turn."""
BLIND_US = 2_500_000
"""What had been handed to a driver when the database went away may still come about."""


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
    """Nobody writes about an action, under an older epoch, after somebody had it under a newer one."""
    newest: dict[tuple[int, str], tuple[int, int]] = {}
    for change in history.changes:
        if change.table not in {"steps", "actions"}:
            continue
        look = history.looks[change.look]
        action = str(change.after["action_id" if change.table == "steps" else "id"])
        epoch = int(change.after["epoch"] or 0)
        known, since = newest.get((look.era, action), (0, -1))
        if epoch < known and since < change.look and _written(change):
            yield (
                f"action {action}: {change.table} {change.key} written under epoch {epoch} at"
                f" {look.at_us / SECOND:.3f}, after epoch {known}"
            )
        if epoch > known:
            newest[look.era, action] = (epoch, change.look)


def _written(change: Change) -> bool:
    """Whether somebody carried it on; that it was asked for, given up or ended is no act."""
    return change.table == "steps" or change.after["status"] == "RUNNING"


def acted_without_lease(history: History) -> Iterator[str]:
    """A step is begun or handed over only by an engine whose lease was good about then."""
    for change in history.changes:
        if change.table != "steps" or change.look == 0 or not _begun(change):
            continue
        before, after = history.looks[change.look - 1], history.looks[change.look]
        epoch = int(change.after["epoch"])
        lease_us = int(history.lease_s * SECOND)
        if _dead(before, epoch, lease_us) and _dead(after, epoch, lease_us):
            yield (
                f"step {change.key} {change.after['stage']} {change.after['phase']} by epoch {epoch}"
                f" at {after.at_us / SECOND:.3f}, whose lease was over"
            )


def _begun(change: Change) -> bool:
    before, after = change.before, change.after
    if before is None:
        return True
    return bool(before["submitted_us"] != after["submitted_us"])


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
    ended: dict[str, int] = {}
    actions_ended: dict[str, int] = {}
    actions_of: dict[str, str] = {}
    for change in history.changes:
        at_us = history.looks[change.look].at_us
        row = change.after
        if change.table == "steps" and row["operation_id"]:
            actions_of[row["operation_id"]] = row["action_id"]
            if row["ended_us"] is not None:
                ended.setdefault(row["operation_id"], at_us)
        if change.table == "actions" and row["end_us"] is not None:
            actions_ended.setdefault(row["id"], at_us)
    for made in history.made:
        limit = ended.get(made.operation, 2**62)
        limit = min(limit, actions_ended.get(actions_of.get(made.operation, ""), 2**62))
        if made.at_us > limit + WRITE_US:
            yield f"{made.name}: pid {made.pid} started for operation {made.operation}, long over"


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
            if deed.at_us + BLIND_US < made.at_us < lifted_us:
                yield f"{made.name}: started at {made.at_us / SECOND:.3f}, after the database went back"
        seen = [k for k in history.looks if deed.end_us < k.at_us < lifted_us and k.db_us]
        if seen and seen[-1].at_us - deed.end_us > 5 * SECOND and not seen[-1].stopped:
            yield f"the database went back at {deed.at_us / SECOND:.3f}, and no stop was set"


RULES = (
    two_copies,
    done_twice,
    old_hand,
    acted_without_lease,
    began_after_its_end,
    acted_blindly,
)
