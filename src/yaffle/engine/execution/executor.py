"""The executor: claims actions with a lease, runs their steps, writes each result, ends them.

The order of every step: write the intent with its operation id → check that nobody took over →
act with a deadline → write the result. The position on the ladder is replayed from the journal
each time, so this loop does not care whether it began the walk or inherited it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import structlog

from yaffle.core.recovery.ladder import Done, End, IllegalStep, Next, Result, Rung, Stage, position
from yaffle.engine.action_inputs.policy_snapshot import PolicySnapshot
from yaffle.engine.action_inputs.target_mapping import target_of
from yaffle.engine.cluster_actions.runner import carry_on
from yaffle.engine.cluster_actions.transitions import JOBS
from yaffle.engine.execution import completion
from yaffle.engine.runtime.pauses import halted
from yaffle.engine.runtime.session import LeaseLost
from yaffle.engine.runtime.step_deadlines import inherited_s
from yaffle.engine.steps import node_action_plan, stages
from yaffle.engine.steps.disk_snapshot import image_to_boot
from yaffle.engine.steps.evidence import on_lost_host
from yaffle.engine.steps.node_action_plan import plan_of
from yaffle.engine.steps.step import StepExecution
from yaffle.errors import StaleEpoch, StoreUnavailable
from yaffle.model.action import ActionKind
from yaffle.model.ids import OperationId
from yaffle.model.policy import RecoveryAction
from yaffle.store import actions, catalog, journal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.model.operations import Target
    from yaffle.store.rows import ActionRow, NodeRow, StepRow

log = structlog.get_logger()


class StepContext(NamedTuple):
    """The inputs of the next step, read in one transaction."""

    node: NodeRow
    target: Target
    past: Sequence[StepRow]
    snapshot: PolicySnapshot
    ladder: tuple[Rung, ...]
    refusal: tuple[Result, str] | None
    """Why no further act may begin."""
    renewal: node_action_plan.Renewal | None
    """For a node that is given another profile."""


GAVE_UP = frozenset(
    {Result.FAILED, Result.UNPROVED, Result.WAIVED, Result.LEFT_BEHIND, Result.UNCLEAR}
)
"""What a process that stood still concludes from the time that has passed; no answer of a target."""
SPARE_SHARE = 4
"""One worker in so many is for recoveries and for moves of rows alone."""


class Executor:
    """Runs this engine's share of the actions."""

    def __init__(self, ctx: EngineContext, session: Session) -> None:
        self._ctx = ctx
        self._session = session
        self._running: set[str] = set()

    async def run(self) -> None:
        """Claim and carry out actions for as long as the session lasts."""
        async with asyncio.TaskGroup() as group:
            while True:
                for action in await self._claim():
                    self._running.add(action.id)
                    group.create_task(self._one(action), name=f"{action.action} {action.id}")
                await self._ctx.signals.actions.wait(self._ctx.settings.poll)

    async def _claim(self) -> Sequence[ActionRow]:
        room = self._ctx.settings.workers - len(self._running)
        if room <= 0 or not self._session.may_act():
            return ()
        me, carried = self._session.me, tuple(self._running)
        lease_s, able = self._ctx.settings.lease, self._ctx.able()
        try:
            # Most rings are for nothing that could be claimed; to look costs nobody a turn.
            if not await self._ctx.store.read(
                lambda conn: actions.any_claimable(conn, me, carried, lease_s=lease_s, able=able)
            ):
                return ()
            found = await self._ctx.store.write(
                lambda conn: actions.claim(
                    conn,
                    me,
                    self._session.epoch,
                    lease_s=lease_s,
                    limit=room,
                    spare=self._ctx.settings.workers // SPARE_SHARE,
                    carried=carried,
                    able=able,
                )
            )
        except StoreUnavailable as error:
            log.warning("cannot claim", error=str(error))
            return ()
        return [a for a in found if a.id not in self._running]

    async def _one(self, action: ActionRow) -> None:
        """Carry out one action; stops silently when the right to it is lost."""
        bound = structlog.contextvars.bound_contextvars(action=action.id, node=action.node_id)
        with bound:
            try:
                if action.action in JOBS:
                    await carry_on(self._ctx, self._session, action)
                else:
                    await StepRunner(self._ctx, self._session, action).run()
            except (StaleEpoch, LeaseLost) as error:
                log.warning("action given up", reason=str(error))
            finally:
                self._running.discard(action.id)
                self._ctx.signals.changed()


class StepRunner:
    """Runs the steps of one action."""

    def __init__(self, ctx: EngineContext, session: Session, action: ActionRow) -> None:
        self._ctx = ctx
        self._session = session
        self._action = action
        self.ticket = actions.Ticket(action_id=action.id, engine_id=session.me, epoch=session.epoch)
        self._mine: set[int] = set()
        """Steps that this very walk began: any other half-done step was inherited."""

    async def run(self) -> None:
        """Run step after step until the end is written; waits while the database is away."""
        try:
            context = await self._session.write(self._opened)
            while not await self._advance(context):
                context = await self._session.write(self._read)
            self._ctx.deadlines.forget(self._action.id)
        except (StaleEpoch, LeaseLost):
            raise
        except Exception as error:
            # One action that cannot be carried out must not take the healing of all others down,
            # restart after restart: it ends, loudly, and a person is asked for.
            log.exception("damaged action")
            why = f"{type(error).__name__}: {error}"
            await self._session.write(
                lambda conn: completion.poisoned(self._ctx, self.ticket, conn, self._action, why)
            )

    async def _advance(self, context: StepContext | None) -> bool:
        """Take one step; return whether the action has ended."""
        write = self._session.write
        if context is None:
            await write(
                lambda conn: completion.vanished(self._ctx, self.ticket, conn, self._action)
            )
            return True
        past, snapshot = context.past, context.snapshot
        place = position(context.ladder, [done_of(s) for s in past if s.phase == journal.ENDED])
        if isinstance(place, End):
            await write(
                lambda conn: completion.end(
                    self._ctx, self.ticket, conn, self._action, place, past, snapshot
                )
            )
            return True
        half_done = next((s for s in past if s.phase != journal.ENDED), None)
        # What was only intended has not begun: it may be refused as well as the next step may.
        begun = half_done is not None and half_done.phase != journal.INTENT
        if not begun and (refusal := _applies(context.refusal, place)):
            await self._record(place, past, half_done, *refusal)
            return False
        rung = context.ladder[place.rung].action
        row = half_done or await self._intend(place, rung, snapshot, past)
        target, rung = node_action_plan.aimed(context.target, rung, place.stage, context.renewal)
        step = StepExecution(
            ctx=self._ctx,
            session=self._session,
            action=self._action,
            ticket=self.ticket,
            node=context.node,
            target=replace(target, host_lost=on_lost_host(past, place)),
            snapshot=snapshot,
            rung=rung,
            place=place,
            row=row,
            resumed=row.seq not in self._mine,
            deadline_s=self._deadline_s(place, row),
            refusal=self._refusal,
            image=image_to_boot(rung, past, snapshot.recovery),
            renewed=context.renewal.new if context.renewal else None,
        )
        if step.resumed:
            self._ctx.metrics.takeovers.inc()
            log.info("step taken over", stage=row.stage, phase=row.phase)
        outcome = await stages.run(step)
        if outcome.result in GAVE_UP and not self._session.may_act():
            raise LeaseLost("the lease ran out during a step: who has it next tries what was not")
        await write(lambda conn: completion.write_step(self._ctx, conn, step, outcome))
        log.info(
            "step done",
            stage=row.stage,
            operation=row.operation,
            result=outcome.result.value,
            detail=outcome.detail,
        )
        self._ctx.metrics.steps.labels(row.stage, outcome.result.value).inc()
        self._ctx.signals.changed()
        return False

    # --- database ----------------------------------------------------------------------------

    def _begin(self, conn: Connection) -> None:
        action = actions.guard(conn, self.ticket)
        now_us = self._ctx.clock.now_us()
        self._action = replace(self._action, start_us=action.start_us or now_us)
        if action.start_us is None:
            actions.set_values(conn, action.id, now_us, start_us=now_us)
            node_action_plan.settle(self._ctx, conn, action, now_us)
            completion.started(self._ctx, conn, action, now_us)

    def _opened(self, conn: Connection) -> StepContext | None:
        self._begin(conn)
        return self._read(conn)

    def _read(self, conn: Connection) -> StepContext | None:
        """Return what this action works on; None when its node is gone."""
        action = actions.guard(conn, self.ticket)
        node = None if action.node_id is None else catalog.node(conn, action.node_id)
        if node is None:
            return None
        profile = catalog.profile(conn, node.profile_id)
        cluster = None if node.cluster_id is None else catalog.cluster(conn, node.cluster_id)
        target = target_of(node, profile, cluster.name if cluster else "")
        past = journal.of_action(conn, action.id)
        snapshot, ladder = plan_of(self._ctx, action)
        snapshot = node_action_plan.informed(self._ctx, conn, action, node, snapshot)
        renewal = node_action_plan.renewal_of(conn, action, target)
        return StepContext(node, target, past, snapshot, ladder, self._refusal(conn), renewal)

    async def _intend(
        self, place: Next, rung: RecoveryAction, snapshot: PolicySnapshot, past: Sequence[StepRow]
    ) -> StepRow:
        timeout_s = stages.timeout_of(place.stage, rung, snapshot)
        shared_us = acted_until_us(place, past)
        # Chosen once: a write that is repeated must not leave two intents behind.
        ident = OperationId(self._ctx.new_id())

        def work(conn: Connection) -> StepRow:
            now_us = self._ctx.clock.now_us()
            return journal.begin(
                conn,
                self.ticket,
                seq=len(past),
                rung=place.rung,
                stage=place.stage.value,
                operation=rung.name,
                operation_id=ident,
                now_us=now_us,
                deadline_us=shared_us or now_us + int(timeout_s * 1_000_000),
            )

        row = await self._session.write(work)
        self._mine.add(row.seq)
        return row

    def _deadline_s(self, place: Next, row: StepRow) -> float:
        """Return the step's monotonic deadline; VERIFY shares that of the act it verifies.

        What an earlier session began is inherited, whoever's it was: nobody was at it meanwhile.
        """
        deadlines = self._ctx.deadlines
        now_s, whole_s = self._ctx.clock.monotonic_s(), (row.deadline_us - row.intent_us) / 1e6
        known_s = deadlines.get(row)
        if known_s is None:
            left_s = (row.deadline_us - self._ctx.clock.now_us()) / 1e6
            # Clamped: a wall clock that jumped must not make a step longer than it was meant to be.
            left_s = min(max(left_s, 0.0), whole_s)
        else:
            left_s = known_s - now_s
        if row.seq not in self._mine:
            # Never shorter than is known: the row's times are those of a wall clock.
            left_s = max(left_s, inherited_s(place.stage, left_s, whole_s))
        elif known_s is not None:
            return known_s
        return deadlines.keep(row, now_s + left_s)

    def _refusal(self, conn: Connection) -> tuple[Result, str] | None:
        """Return why no further act may begin: a user took over, or an operator said stop."""
        action = actions.guard(conn, self.ticket)
        if action.cancel_reason is not None:
            return Result.SUPERSEDED, "a user's action took over"
        if action.action != ActionKind.NODE_RECOVER:
            return None
        why = halted(conn, action.node_id, action.cluster_id, self._ctx.clock.now_us())
        return (Result.HALTED, why) if why else None

    async def _record(
        self,
        place: Next,
        past: Sequence[StepRow],
        half_done: StepRow | None,
        result: Result,
        detail: str,
    ) -> None:
        """Write a step that was refused, and why."""
        row = half_done or await self._intend(
            place, RecoveryAction(name=""), PolicySnapshot.without_policy(0.0), past
        )
        await self._session.write(
            lambda conn: journal.ended(
                conn,
                self.ticket,
                row,
                result=result.value,
                detail=detail,
                data={},
                now_us=self._ctx.clock.now_us(),
            )
        )


def _applies(refusal: tuple[Result, str] | None, place: Next) -> tuple[Result, str] | None:
    """Return the refusal where it applies: a stop does not end VERIFY, which touches nothing."""
    if refusal is not None and refusal[0] is Result.HALTED and place.stage is Stage.VERIFY:
        return None
    return refusal


def acted_until_us(place: Next, past: Sequence[StepRow]) -> int | None:
    """Return the deadline that VERIFY shares with the act of its rung: one timeout covers both.

    Read from the journal, so that a successor goes by the same.
    """
    if place.stage is not Stage.VERIFY:
        return None
    acts = {Stage.ACT.value, Stage.CREATE.value}
    return next((s.deadline_us for s in past if s.rung == place.rung and s.stage in acts), None)


def done_of(step: StepRow) -> Done:
    """Return a finished step as the core's ladder reads it; raise IllegalStep if it is none."""
    try:
        return Done(rung=step.rung, stage=Stage(step.stage), result=Result(step.result or ""))
    except ValueError as error:
        raise IllegalStep(f"the journal holds {step.stage}: {step.result}") from error
