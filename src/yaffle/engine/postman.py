"""Carries the outbox to its receivers: each message until it is accepted, none delaying another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.errors import StoreUnavailable
from yaffle.model.operations import Delivery
from yaffle.store import outbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from yaffle.engine.kit import Kit
    from yaffle.engine.session import Session
    from yaffle.store.outbox import Due

log = structlog.get_logger()

CARRIED_MAX: Final = 32
PER_NOTIFIER_MAX: Final = 8
"""A receiver that hangs takes at most this many of the hands."""
SEND_S: Final = 15.0


class Postman:
    """Delivers due messages, bounded in number; recovery never waits for it."""

    def __init__(self, kit: Kit, session: Session) -> None:
        self._kit = kit
        self._session = session
        self._carried: dict[int, str] = {}

    async def run(self) -> None:
        """Deliver for as long as the session lasts."""
        async with asyncio.TaskGroup() as group:
            while True:
                for due in await self._due():
                    self._carried[due.seq] = due.notifier
                    group.create_task(self._deliver(due), name=f"message {due.seq}")
                await self._kit.signals.outbox.wait(self._kit.settings.poll)

    async def _due(self) -> Sequence[Due]:
        room = CARRIED_MAX - len(self._carried)
        if room <= 0 or not self._session.may_act():
            return ()
        now_us = self._kit.clock.now_us()
        try:
            found = await self._kit.store.read(
                lambda conn: outbox.due(
                    conn, now_us=now_us, limit=room * 4, skip=tuple(self._carried)
                )
            )
        except StoreUnavailable as error:
            log.warning("cannot read the outbox", error=str(error))
            return ()
        return self._fair(found, room)

    def _fair(self, found: Sequence[Due], room: int) -> Sequence[Due]:
        """Choose so that no notifier takes more than its share of the hands."""
        hands = list(self._carried.values())
        chosen: list[Due] = []
        for due in found:
            if len(chosen) < room and hands.count(due.notifier) < PER_NOTIFIER_MAX:
                hands.append(due.notifier)
                chosen.append(due)
        return chosen

    async def _deliver(self, due: Due) -> None:
        try:
            delivery, said = await self._send(due)
            await self._settle(due, delivery, said)
        finally:
            self._carried.pop(due.seq, None)
            self._kit.signals.outbox.ring()

    async def _send(self, due: Due) -> tuple[Delivery, str]:
        notifier = self._kit.drivers.notifiers.get(due.notifier)
        if notifier is None:
            return Delivery.REFUSED, f"no notifier {due.notifier!r} is configured any more"
        try:
            async with asyncio.timeout(SEND_S + 1):
                return await notifier.send(due.message, deadline_s=SEND_S)
        except TimeoutError:
            return Delivery.RETRY, f"no answer within {SEND_S:g} s"
        except Exception as error:
            log.exception("notifier failed", notifier=due.notifier)
            return Delivery.RETRY, f"{type(error).__name__}: {error}"

    async def _settle(self, due: Due, delivery: Delivery, said: str) -> None:
        """Write what the receiver did; if that fails the message is sent again, under the same id."""
        chance = self._kit.rng.random()

        def work(conn: Connection) -> None:
            now_us = self._kit.clock.now_us()
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
            await self._kit.store.write(work)
        except StoreUnavailable as error:
            log.warning("delivery not recorded", message=due.message.id, error=str(error))
