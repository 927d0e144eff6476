"""The outbox dispatcher: delivers each message until it is accepted, none delaying another."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.engine.ownership.leader_lease import is_ours
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.errors import StoreUnavailable
from yaffle.model.operations import Delivery
from yaffle.store import outbox
from yaffle.store.singleton_leases import SingletonRole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.store.outbox import Due

log = structlog.get_logger()

PER_NOTIFIER_MAX: Final = 8
"""A receiver that hangs takes at most this many of the hands."""
SEND_S: Final = 15.0


class OutboxDispatcher:
    """Delivers due messages, bounded in number; recovery never waits for it."""

    def __init__(self, ctx: EngineContext, session: Session) -> None:
        self._ctx = ctx
        self._session = session
        self._carried: dict[int, str] = {}
        """The receiver of each message that is on its way."""

    async def run(self) -> None:
        """Deliver for as long as the session lasts."""
        async with asyncio.TaskGroup() as group:
            while True:
                for due in await self._due():
                    self._carried[due.seq] = due.notifier
                    group.create_task(self._deliver(due), name=f"message {due.seq}")
                await self._ctx.signals.outbox.wait(self._ctx.settings.poll)

    async def _due(self) -> Sequence[Due]:
        if not self._session.may_act():
            return ()
        now_us = self._ctx.clock.now_us()
        carried = tuple(self._carried)
        hands = Counter(self._carried.values())

        def work(conn: Connection) -> list[Due]:
            # Asked one by one: a receiver that is away keeps thousands of messages, and must not
            # stand before those of the others.
            return [
                due
                for notifier in outbox.notifiers(conn, now_us=now_us)
                if (room := PER_NOTIFIER_MAX - hands[notifier]) > 0
                for due in outbox.due(
                    conn, now_us=now_us, limit=room, skip=carried, notifier=notifier
                )
            ]

        try:
            # One carries for all: two would send everything twice, and overtake each other.
            if not await is_ours(self._ctx, self._session, SingletonRole.OUTBOX):
                return ()
            return await self._ctx.store.read(work)
        except StoreUnavailable as error:
            log.warning("cannot read the outbox", error=str(error))
            return ()

    async def _deliver(self, due: Due) -> None:
        try:
            delivery, said = await self._send(due)
            await self._settle(due, delivery, said)
        finally:
            self._carried.pop(due.seq, None)
            self._ctx.signals.outbox.ring()

    async def _send(self, due: Due) -> tuple[Delivery, str]:
        notifier = self._ctx.drivers.notifiers.get(due.notifier)
        if notifier is None:
            return Delivery.REFUSED, f"no notifier {due.notifier!r} is configured any more"
        answer = await call_driver(
            lambda: notifier.send(due.message, deadline_s=SEND_S),
            tuple,
            within_s=SEND_S + 1,
            what=f"the {due.notifier} notifier",
        )
        if isinstance(answer, Failure):
            return Delivery.RETRY, answer.why
        match answer:
            case (Delivery() as delivery, str() as said):
                return delivery, said
            case _:
                return Delivery.RETRY, f"the notifier answered {answer!r}"[:500]

    async def _settle(self, due: Due, delivery: Delivery, said: str) -> None:
        """Store the result of a delivery; if that fails the message is sent again, under the same id."""
        chance = self._ctx.rng.random()

        def work(conn: Connection) -> None:
            now_us = self._ctx.clock.now_us()
            match delivery:
                case Delivery.ACCEPTED:
                    outbox.accepted(conn, due.seq, now_us=now_us)
                case Delivery.RETRY:
                    outbox.failed(conn, due.seq, now_us=now_us, error=said, chance=chance)
                case Delivery.REFUSED:
                    outbox.parked(conn, due.seq, now_us=now_us, error=said)

        if delivery is not Delivery.ACCEPTED:
            log.warning("message not accepted", notifier=due.notifier, outcome=delivery, said=said)
        try:
            await self._ctx.store.write(work)
        except StoreUnavailable as error:
            log.warning("delivery not recorded", message=due.message.id, error=str(error))
