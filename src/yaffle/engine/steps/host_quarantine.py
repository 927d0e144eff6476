"""Keeps a host in quarantine from the first evacuation until the old copies are gone.

The record is an incident of its own, so that it outlives engines and is told of as others are: one
message when it begins, one when it ends. What was moved is among its numbers. Who has the upkeep
looks at the host by the profile of what was moved; `core.recovery.host_quarantine` says what follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from yaffle.core.planning.host_attribution import place_of
from yaffle.core.recovery.host_quarantine import (
    ALIVE_S,
    CAUSE,
    MOVED,
    RECREATED,
    Copy,
    Do,
    Finding,
    Seen,
    judge,
    key_of,
    seen_of,
    sentence,
    standing,
    with_copy,
)
from yaffle.core.recovery.ladder import Result, Stage
from yaffle.engine.incidents import lifecycle
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.engine.steps.evidence import was_off
from yaffle.model.ids import NodeId
from yaffle.model.incident import IncidentState
from yaffle.model.msgspec_init import prepared
from yaffle.model.operations import EMPTY, OldCopy, Target, Vacated
from yaffle.model.policy import RungKind
from yaffle.ports import SupportsEvacuationStatus
from yaffle.store import incidents

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.engine.steps.step import Outcome, StepExecution
    from yaffle.store.rows import IncidentRow

log = structlog.get_logger()

EVERY_S: Final = 10.0
"""Between two looks at one host."""
ASK_S: Final = 4.0
COPIES_MAX: Final = 500
"""Old copies of one host that are asked for in one look."""
_IN_DOUBT: Final = frozenset({Result.FAILED, Result.UNCLEAR})
"""What a move came to that may have been made all the same."""


@prepared
@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Record of a quarantine, kept as JSON in the numbers of its incident."""

    host: str
    """The backend's name of the machine."""
    place: str
    """That name with its cloud's, as people are told of it."""
    profile_type: str
    copies: tuple[Copy, ...]
    do: Do = Do.WAIT
    seen: Seen = Seen.NOTHING
    told: bool = False
    """Whether anybody was told that it began: of a move that may never have been nobody is."""
    admit: str = ""


def kept_of(row: IncidentRow) -> Kept | None:
    """Return what the record holds; None where that cannot be read."""
    try:
        return msgspec.convert(dict(row.hold_numbers or {}), Kept)
    except msgspec.ValidationError:
        log.exception("quarantine cannot be read", incident=row.id)
        return None


def counted(conn: Connection) -> Mapping[Do, int]:
    """Return how many hosts are in quarantine, by what follows."""
    found: dict[Do, int] = {do: 0 for do in Do if do is not Do.OVER}
    for row in incidents.open_of_cause(conn, CAUSE):
        kept = kept_of(row)
        # One that cannot be read is nobody's reason to think that all is well.
        found[Do.DANGER if kept is None else kept.do] += 1
    return found


def bars(conn: Connection, place: str) -> str:
    """Return why nothing is to be moved to a host; empty where nothing speaks against it."""
    key = key_of(place)
    row = incidents.open_by_key(conn, [key]).get(key)
    return "" if row is None else f"host {place} is in quarantine (incident {row.id[:8]})"


# --- it begins ------------------------------------------------------------------------------------


def enter(
    ctx: EngineContext, conn: Connection, step: StepExecution, outcome: Outcome, now_us: int
) -> None:
    """Put the host in quarantine that a step has, or may have, moved a node off."""
    how = _left_by(step, outcome)
    host = outcome.left_host or str(step.target.attributes.get("host") or "")
    physical_id = step.node.physical_id
    driver: object = ctx.drivers.profiles.get(step.target.profile_type)
    if not (how and host and physical_id and isinstance(driver, SupportsEvacuationStatus)):
        return
    off = was_off(conn, step)
    if how == RECREATED and not off:
        return  # its deletion was proved by the host itself, or goes on where remains are swept
    new = Copy(
        physical_id=physical_id,
        name=step.node.name,
        node_id=step.node.id,
        how=how,
        off=off,
        facts=dict(step.target.attributes),
    )
    _add(ctx, conn, host, step.target.profile_type, new, outcome.result, now_us)


def _left_by(step: StepExecution, outcome: Outcome) -> str:
    """Return how the node left its host, if it did: one that failed may have been moved all the same."""
    rung, stage = step.rung, step.place.stage
    if rung.kind is not RungKind.BUILTIN:
        return ""
    if rung.name == MOVED and stage is Stage.ACT:
        moved, in_doubt = outcome.result is Result.DONE, outcome.result in _IN_DOUBT
        return MOVED if moved or (in_doubt and outcome.left_host) else ""
    made = outcome.result in {Result.DONE, Result.UNCLEAR}
    return RECREATED if rung.name == RECREATED and stage is Stage.CREATE and made else ""


def _add(
    ctx: EngineContext,
    conn: Connection,
    host: str,
    profile_type: str,
    new: Copy,
    result: Result,
    now_us: int,
) -> None:
    place = place_of(host, new.facts)
    row = _open(ctx, conn, place, now_us)
    new_one = Kept(host=host, place=place, profile_type=profile_type, copies=())
    kept = kept_of(row) if row.hold_numbers else new_one
    if kept is None:
        return  # it keeps its host out; written over, the copies that it names would be forgotten
    kept = replace(
        kept,
        copies=with_copy(kept.copies, new),
        # Of a move that may never have been nobody hears before it was looked for.
        told=kept.told or result is Result.DONE,
    )
    found = standing(Seen.AWAY, kept.copies)
    _write(ctx, conn, row, kept, sentence(place, found, kept.admit), now_us)


def _open(ctx: EngineContext, conn: Connection, place: str, now_us: int) -> IncidentRow:
    """Return the open record of a host, begun now if there was none."""
    key = key_of(place)
    present = incidents.open_by_key(conn, [key]).get(key)
    if present is not None:
        return present
    return lifecycle.open_host(ctx, conn, place, key, cause=CAUSE, now_us=now_us)


def _write(
    ctx: EngineContext, conn: Connection, row: IncidentRow, kept: Kept, reason: str, now_us: int
) -> None:
    """Keep the record; who is to hear that it began hears of it once."""
    numbers = msgspec.to_builtins(kept, enc_hook=dict)
    incidents.set_values(conn, row.id, reason=reason[:4000], hold_numbers=numbers)
    if kept.told and row.state != IncidentState.HELD:
        log.warning("host in quarantine", host=kept.place, reason=reason)
        lifecycle.transition(ctx, conn, None, row, IncidentState.HELD, reason=reason, now_us=now_us)


# --- it goes on, and ends -------------------------------------------------------------------------


def over(
    ctx: EngineContext, conn: Connection, row: IncidentRow, kept: Kept, reason: str, now_us: int
) -> None:
    """End it, by the backend's proof."""
    numbers = msgspec.to_builtins(replace(kept, do=Do.OVER), enc_hook=dict)
    incidents.set_values(conn, row.id, hold_numbers=numbers)
    log.info("quarantine over", host=kept.place, reason=reason)
    lifecycle.transition(
        ctx,
        conn,
        None,
        row,
        IncidentState.RECOVERED if kept.told else IncidentState.SUPERSEDED,
        reason=reason,
        now_us=now_us,
        tell=kept.told,
        recovered_us=now_us,
    )


def acknowledged(
    ctx: EngineContext, conn: Connection, row: IncidentRow, by: str, now_us: int
) -> None:
    """End it, by the word of a person who has looked at the host; any other incident goes on."""
    if row.cause != CAUSE or row.open_key is None:
        return
    reason = f"{by} says that no old copy is left on {row.node_name}"
    log.warning("quarantine ended by a person", host=row.node_name, by=by)
    lifecycle.transition(
        ctx, conn, None, row, IncidentState.SUPERSEDED, reason=reason, now_us=now_us
    )


class Quarantines:
    """Looks at every host in quarantine; whoever has the upkeep does it."""

    def __init__(self, ctx: EngineContext, session: Session) -> None:
        self._ctx, self._session = ctx, session
        self._next_s: dict[str, float] = {}
        self._reports: dict[str, tuple[str, float | None]] = {}
        """By incident: the last report of the host, and when it was another one than before."""

    async def look(self) -> None:
        """Look at those whose turn it is; raises StoreUnavailable."""
        rows = await self._ctx.store.read(lambda conn: incidents.open_of_cause(conn, CAUSE))
        for known in (self._next_s, self._reports):
            for ident in known.keys() - {row.id for row in rows}:
                del known[ident]
        for row in rows:
            now_s = self._ctx.clock.monotonic_s()
            if now_s >= self._next_s.get(row.id, now_s):
                self._next_s[row.id] = now_s + EVERY_S
                await self._one(row)

    async def _one(self, row: IncidentRow) -> None:
        kept = kept_of(row)
        driver: object = self._ctx.drivers.profiles.get(kept.profile_type) if kept else None
        if kept is None or not isinstance(driver, SupportsEvacuationStatus):
            return
        asked = [c for c in kept.copies if c.known is not OldCopy.GONE][:COPIES_MAX]
        targets = [_target(kept, copy) for copy in asked]
        told = await call_driver(
            lambda: driver.vacated(kept.host, targets, deadline_s=ASK_S),
            Vacated,
            within_s=ASK_S + 1.0,
            what=f"the question for host {kept.host}",
        )
        if isinstance(told, Failure):
            return
        found = judge(self._seen(row, told), kept.copies, told.copies)
        done = ""
        if found.do is Do.OVER and found.admit and self._session.may_act():
            done = await self._admit(driver, kept)
        await self._ctx.store.write(lambda conn: self._keep(conn, row, kept, told, found, done))

    def _seen(self, row: IncidentRow, told: Vacated) -> Seen:
        """Return how the host is; that it reports takes two looks to see."""
        now_s = self._ctx.clock.monotonic_s()
        before, changed_s = self._reports.get(row.id, (told.reported, None))
        if told.reported != before:
            changed_s = now_s
        self._reports[row.id] = (told.reported, changed_s)
        reports = changed_s is not None and now_s - changed_s < ALIVE_S
        return seen_of(up=told.up, barred=told.barred, reports=reports)

    async def _admit(self, driver: SupportsEvacuationStatus, kept: Kept) -> str:
        """Let the host in where its operator lets us; say what was done."""
        done = await call_driver(
            lambda: driver.admit(kept.host, _target(kept, kept.copies[0]), deadline_s=ASK_S),
            str,
            within_s=ASK_S + 1.0,
            what=f"the admission of host {kept.host}",
        )
        return "" if isinstance(done, Failure) else done

    def _keep(
        self,
        conn: Connection,
        row: IncidentRow,
        before: Kept,
        told: Vacated,
        found: Finding,
        done: str,
    ) -> None:
        """Write what a look came to, unless the record has changed meanwhile: then we look again."""
        now = incidents.by_id(conn, row.id)
        if now is None or now.open_key is None or kept_of(now) != before:
            return
        now_us = self._ctx.clock.now_us()
        shown = replace(before, copies=found.copies, do=found.do, seen=found.seen, admit=told.admit)
        reason = sentence(before.place, found, told.admit, done)
        if found.do is Do.OVER:
            over(self._ctx, conn, now, shown, reason, now_us)
            return
        # What was not moved has been taken for gone: what is left was.
        shown = replace(shown, told=before.told or found.seen is not Seen.NOTHING)
        if shown != before or reason != now.reason:
            _write(self._ctx, conn, now, shown, reason, now_us)
            if found.do is not before.do:
                log.warning("host in quarantine", host=before.place, state=found.do, reason=reason)


def _target(kept: Kept, copy: Copy) -> Target:
    """Return an old copy as its profile wants to be asked for it."""
    return Target(
        node_id=NodeId(copy.node_id),
        name=copy.name,
        physical_id=copy.physical_id,
        profile_type=kept.profile_type,
        spec=EMPTY,
        attributes=copy.facts,
    )
