"""Runs a claimed cluster action: one transition, which touches rows alone, then lets go.

One transaction a move, so there is nothing to journal: it happened as a whole, or a successor
makes it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from yaffle.engine.cluster_actions.transitions import advance, broken
from yaffle.engine.runtime.session import LeaseLost
from yaffle.errors import StaleEpoch
from yaffle.store import actions

if TYPE_CHECKING:
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.store.rows import ActionRow

log = structlog.get_logger()


async def carry_on(ctx: EngineContext, session: Session, action: ActionRow) -> None:
    """Run the next transition of a cluster action; one that raises ends that action alone."""
    ticket = actions.Ticket(action_id=action.id, engine_id=session.me, epoch=session.epoch)
    try:
        await session.write(lambda conn: advance(ctx, ticket, conn, action))
    except (StaleEpoch, LeaseLost):
        raise
    except Exception as error:
        # A bug in one kind of job must not stop the healing of everything else.
        log.exception("damaged job")
        why = f"the action cannot go on: {type(error).__name__}: {error}"
        await session.write(lambda conn: broken(ctx, ticket, conn, why))
