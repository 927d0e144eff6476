"""Requests to recover: a member's waits for its planner, a node without cluster is admitted here.

The planner of a cluster lifts the guards that a person may lift. A node without a cluster has no
watch and no planner: what no person may lift by asking (a stop, maintenance, the budgets that all
share) is asked in the request's own transaction, and refused at once instead of waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from yaffle.core.planning import retry
from yaffle.core.planning.budgets import Refusal, debit
from yaffle.engine.action_inputs import target_mapping
from yaffle.engine.action_inputs.default_policy import without_policy
from yaffle.engine.action_inputs.policy_snapshot import PolicySnapshot, pack
from yaffle.engine.action_inputs.template_context import names_of, recover_action
from yaffle.engine.cluster_actions import conflicts, request_validation
from yaffle.engine.cluster_actions.enqueue import queue
from yaffle.engine.commands.context import CommandContext
from yaffle.engine.commands.nodes import tell
from yaffle.engine.detection.cluster_snapshot import in_place_names, policy_of
from yaffle.engine.runtime.pauses import halted
from yaffle.errors import Conflict
from yaffle.model.action import ActionKind
from yaffle.model.authz import Right, need
from yaffle.store import actions, budgets, catalog

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.authz import Principal
    from yaffle.model.ids import ActionId
    from yaffle.store.rows import NodeRow

BESIDES_S = 600
"""What a recovery may take beyond its rungs: looking, fencing, deleting."""


class Recoveries:
    """Has nodes recovered because somebody asked."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._ctx = context.ctx

    async def node_recover(
        self, who: Principal, ident: str, params: Mapping[str, object] | None = None
    ) -> ActionId:
        """Ask for a recovery; the request's words go before the policy's, the policy's before ours.

        BadRequest for words that make no sense; Conflict where a node without a cluster may not be
        touched now.
        """
        need(who, Right.WRITE)

        def work(conn: Connection) -> ActionId:
            row = catalog.find_node(conn, ident, who.scope)
            driver = self._context.driver(catalog.profile(conn, row.profile_id).type)
            known = request_validation.NODE_WORDS | request_validation.HINTS
            inputs = {
                "by": who.user,
                **request_validation.recovery(who, driver, dict(params or {}), known),
            }
            conflicts.check(conn, ActionKind.NODE_RECOVER, "node", row.id)
            tell(conn, who, row, ActionKind.NODE_RECOVER, self._context.now())
            if row.cluster_id is None:
                return self._alone(conn, who, row, inputs)
            return self._member(conn, who, row, inputs)

        action = await self._ctx.store.write(work)
        self._context.changed()
        return action

    # --- rows -----------------------------------------------------------------------------------

    def _member(
        self, conn: Connection, who: Principal, row: NodeRow, inputs: Mapping[str, object]
    ) -> ActionId:
        """Hold the node until its cluster's planner has admitted the request."""
        assert row.cluster_id is not None  # noqa: S101 - asked by the caller
        policy, _ = policy_of(self._ctx, conn, row.cluster_id)
        snapshot = PolicySnapshot.of(policy, inputs, in_place=in_place_names(self._ctx))
        return queue(
            self._ctx,
            conn,
            action=ActionKind.NODE_RECOVER,
            who=replace(who, project=row.project, domain=row.domain),
            target=row.id,
            cluster_id=row.cluster_id,
            node_id=row.id,
            inputs=inputs,
            data=self._shown(conn, row, snapshot),
            status=actions.WAITING,
            lock_key=row.id,
        )

    def _alone(
        self, conn: Connection, who: Principal, row: NodeRow, inputs: Mapping[str, object]
    ) -> ActionId:
        """Admit the recovery of a node that no watch looks after, or refuse it now."""
        now_us = self._context.now()
        why = halted(conn, row.id, None, now_us)
        if why:
            raise Conflict(f"Node {row.id} cannot be recovered now: {why}", hint="lift it first")
        policy = without_policy(self._ctx.settings.default_interval)
        snapshot = PolicySnapshot.of(policy, inputs, in_place=in_place_names(self._ctx))
        shared = budgets.read(conn, budgets.keys_of(row, None), self._ctx.budgets, now_us)
        after = debit(shared.buckets, shared.limits, now_us)
        if isinstance(after, Refusal):
            numbers = ", ".join(f"{k} {v}" for k, v in after.numbers.items())
            raise Conflict(
                f"Node {row.id} cannot be recovered now: {after.reason.value} ({numbers})",
                hint="ask again later, or raise the budget",
            )
        budgets.write(conn, after)
        state = retry.started(target_mapping.retry_of(row), policy.recovery.retry, now_us)
        catalog.set_node(
            conn,
            row.id,
            now_us,
            attempts=state.attempts,
            attempt_us=now_us,
            next_attempt_us=state.next_us,
        )
        ladder = snapshot.recovery.actions
        return queue(
            self._ctx,
            conn,
            action=ActionKind.NODE_RECOVER,
            who=replace(who, project=row.project, domain=row.domain),
            target=row.id,
            node_id=row.id,
            inputs={**inputs, "snapshot": pack(snapshot)},
            data=self._shown(conn, row, snapshot),
            timeout_s=int(sum(a.timeout_s for a in ladder)) + BESIDES_S,
            lock_key=row.id,
        )

    def _shown(self, conn: Connection, row: NodeRow, snapshot: PolicySnapshot) -> dict[str, object]:
        """Return `data.health.recover_action`: what will be tried, all words merged."""
        cluster = None if row.cluster_id is None else catalog.cluster(conn, row.cluster_id)
        profile = catalog.profile(conn, row.profile_id)
        names = names_of(
            target_mapping.target_of(row, profile, cluster.name if cluster else ""), ""
        )
        return {"health": {"recover_action": recover_action(snapshot.recovery.actions, names)}}
