"""Dispatchers deliver what is queued in the database until it is accepted, none delaying another."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Protocol, TypeVar

import structlog

from yaffle.engine.ownership.leader_lease import is_ours
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.errors import StoreUnavailable
from yaffle.model.operations import Delivery
from yaffle.store import outbox
from yaffle.store.singleton_leases import SingletonRole

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext, Wakeup
    from yaffle.engine.runtime.session import Session
    from yaffle.store.outbox import Due

log = structlog.get_logger()

PER_RECEIVER_MAX: Final = 8
"""A receiver that hangs takes at most this many of the hands."""
SEND_S: Final = 15.0


class Item(Protocol):
    """One thing to deliver."""

    @property
    def seq(self) -> int:
        """Its place in the queue, and its name there."""
        ...


D = TypeVar("D", bound=Item)


class Dispatcher(ABC, Generic[D]):
    """Delivers what is due, bounded in number; recovery never waits for it."""

    role: ClassVar[SingletonRole]
    """Whoever holds it delivers for all: two would send everything twice, and overtake each other."""
    noun: ClassVar[str]

    def __init__(self, ctx: EngineContext, session: Session) -> None:
        self._ctx = ctx
        self._session = session
        self._carried: dict[int, str] = {}
        """The receiver of each thing that is on its way."""

    async def run(self) -> None:
        """Deliver for as long as the session lasts."""
        async with asyncio.TaskGroup() as group:
            while True:
                for item in await self._due():
                    self._carried[item.seq] = self._receiver(item)
                    group.create_task(self._deliver(item), name=f"{self.noun} {item.seq}")
                await self._bell().wait(self._ctx.settings.poll)

    @abstractmethod
    def _bell(self) -> Wakeup:
        """Return what rings when there may be something new."""

    @abstractmethod
    def _receivers(self, conn: Connection, now_us: int) -> Sequence[str]:
        """Return those for whom something is due."""

    @abstractmethod
    def _due_for(
        self, conn: Connection, receiver: str, now_us: int, limit: int, skip: Sequence[int]
    ) -> Sequence[D]:
        """Return what is due for one of them, in its order, without what is on its way."""

    @abstractmethod
    def _receiver(self, item: D) -> str:
        """Return whose it is."""

    @abstractmethod
    def _sender(self, item: D) -> Callable[[], Awaitable[object]] | None:
        """Return what sends it; None where its receiver is not configured any more."""

    @abstractmethod
    def _settle(
        self, conn: Connection, item: D, delivery: Delivery, said: str, chance: float
    ) -> None:
        """Write what came of it; `chance` is a random number in [0, 1), the same at a repetition."""

    async def _is_ours(self) -> bool:
        return await is_ours(self._ctx, self._session, self.role)

    async def _due(self) -> Sequence[D]:
        if not self._session.may_act():
            return ()
        now_us = self._ctx.clock.now_us()
        carried = tuple(self._carried)
        hands = Counter(self._carried.values())

        def work(conn: Connection) -> list[D]:
            # Asked one by one: a receiver that is away keeps thousands waiting, and must not stand
            # before those of the others.
            return [
                item
                for receiver in self._receivers(conn, now_us)
                if (room := PER_RECEIVER_MAX - hands[receiver]) > 0
                for item in self._due_for(conn, receiver, now_us, room, carried)
            ]

        try:
            if not await self._is_ours():
                return ()
            return await self._ctx.store.read(work)
        except StoreUnavailable as error:
            log.warning("cannot read what is to be delivered", queue=self.noun, error=str(error))
            return ()

    async def _deliver(self, item: D) -> None:
        try:
            delivery, said = await self._send(item)
            await self._note(item, delivery, said)
        finally:
            self._carried.pop(item.seq, None)
            self._bell().ring()

    async def _send(self, item: D) -> tuple[Delivery, str]:
        receiver, send = self._receiver(item), self._sender(item)
        if send is None:
            return Delivery.REFUSED, f"no receiver {receiver!r} is configured any more"
        answer = await call_driver(send, tuple, within_s=SEND_S + 1, what=f"receiver {receiver}")
        if isinstance(answer, Failure):
            return Delivery.RETRY, answer.why
        match answer:
            case (Delivery() as delivery, str() as said):
                return delivery, said
            case _:
                return Delivery.RETRY, f"the driver answered {answer!r}"[:500]

    async def _note(self, item: D, delivery: Delivery, said: str) -> None:
        """Store the result of a delivery; if that fails it is sent again, under the same id."""
        if delivery is not Delivery.ACCEPTED:
            log.warning(
                "delivery not accepted",
                what=f"{self.noun} {item.seq}",
                receiver=self._receiver(item),
                outcome=delivery,
                said=said,
            )
        chance = self._ctx.rng.random()
        try:
            await self._ctx.store.write(
                lambda conn: self._settle(conn, item, delivery, said, chance)
            )
        except StoreUnavailable as error:
            log.warning("delivery not recorded", what=f"{self.noun} {item.seq}", error=str(error))


class OutboxDispatcher(Dispatcher["Due"]):
    """Delivers the messages of the outbox to notifiers."""

    role = SingletonRole.OUTBOX
    noun = "message"

    def _bell(self) -> Wakeup:
        return self._ctx.signals.outbox

    def _receivers(self, conn: Connection, now_us: int) -> Sequence[str]:
        return outbox.notifiers(conn, now_us=now_us)

    def _due_for(
        self, conn: Connection, receiver: str, now_us: int, limit: int, skip: Sequence[int]
    ) -> Sequence[Due]:
        return outbox.due(conn, now_us=now_us, limit=limit, skip=skip, notifier=receiver)

    def _receiver(self, item: Due) -> str:
        return item.notifier

    def _sender(self, item: Due) -> Callable[[], Awaitable[object]] | None:
        notifier = self._ctx.drivers.notifiers.get(item.notifier)
        return None if notifier is None else lambda: notifier.send(item.message, deadline_s=SEND_S)

    def _settle(
        self, conn: Connection, item: Due, delivery: Delivery, said: str, chance: float
    ) -> None:
        now_us = self._ctx.clock.now_us()
        match delivery:
            case Delivery.ACCEPTED:
                outbox.accepted(conn, item.seq, now_us=now_us)
            case Delivery.RETRY:
                outbox.failed(conn, item.seq, now_us=now_us, error=said, chance=chance)
            case Delivery.REFUSED:
                outbox.parked(conn, item.seq, now_us=now_us, error=said)
