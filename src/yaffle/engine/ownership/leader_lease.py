"""Runs a task under a leader lease, so that one engine does it for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from yaffle.store import singleton_leases
from yaffle.store.singleton_leases import Holder, SingletonRole

if TYPE_CHECKING:
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session

log = structlog.get_logger()


async def is_ours(ctx: EngineContext, session: Session, duty: SingletonRole) -> bool:
    """Whether it is for us to do, taking what nobody does; raises StoreUnavailable.

    An engine that has the database's file to itself does everything.
    """
    if ctx.alone:
        return True
    me, epoch = session.me, session.epoch
    match await ctx.store.read(lambda conn: singleton_leases.holder(conn, me, epoch, duty)):
        case Holder.OURS:
            return True
        case Holder.ELSEWHERE:
            return False
        case Holder.NOBODYS:
            lease_s = ctx.settings.lease
            taken = await ctx.store.write(
                lambda conn: singleton_leases.take(conn, me, epoch, duty, lease_s=lease_s)
            )
            if taken:
                log.info("duty taken", duty=duty.value)
            return taken
