"""One engine's part in what a single one does for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from yaffle.store import duties
from yaffle.store.duties import Duty, Holder

if TYPE_CHECKING:
    from yaffle.engine.kit import Kit
    from yaffle.engine.session import Session

log = structlog.get_logger()


async def is_ours(kit: Kit, session: Session, duty: Duty) -> bool:
    """Whether it is for us to do, taking what nobody does; raises StoreUnavailable.

    An engine that has the database's file to itself does everything.
    """
    if kit.alone:
        return True
    me, epoch = session.me, session.epoch
    match await kit.store.read(lambda conn: duties.holder(conn, me, epoch, duty)):
        case Holder.OURS:
            return True
        case Holder.ELSEWHERE:
            return False
        case Holder.NOBODYS:
            lease_s = kit.settings.lease
            taken = await kit.store.write(
                lambda conn: duties.take(conn, me, epoch, duty, lease_s=lease_s)
            )
            if taken:
                log.info("duty taken", duty=duty.value)
            return taken
