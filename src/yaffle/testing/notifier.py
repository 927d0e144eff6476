"""Receivers that remember what they were told, and are away, slow or rude by plan."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from yaffle.model.operations import Delivery
from yaffle.testing.faults import Broken, Fault, FaultPlan

if TYPE_CHECKING:
    from yaffle.model.host_failure import HostFailure
    from yaffle.ports import AlertDriver, Clock, Message, Notifier

T = TypeVar("T")


class _Receiver(Generic[T]):
    type: ClassVar[str] = "scripted"

    def __init__(self, clock: Clock, plan: FaultPlan | None = None) -> None:
        self.plan = plan or FaultPlan(clock)
        self.received: list[T] = []

    async def _take(self, message: T, deadline_s: float) -> tuple[Delivery, str]:
        rule = self.plan.strike("send")
        fault = rule.fault if rule is not None else None
        match fault:
            case Fault.STUCK:
                await asyncio.sleep(1e9)
            case Fault.HANG | Fault.LATE:
                await asyncio.sleep(deadline_s * 0.9)
                return Delivery.RETRY, "no answer"
            case Fault.FAIL | Fault.ERROR | Fault.HALF:
                return Delivery.RETRY, "not now"
            case Fault.LIE:
                return Delivery.REFUSED, "no such address"
            case Fault.RAISE:
                raise Broken("a notifier's bug")
            case _:
                pass
        await asyncio.sleep(0.01)
        self.received.append(message)
        if fault is Fault.LOSE:
            await asyncio.sleep(deadline_s * 0.9)
            return Delivery.RETRY, "the answer was lost"
        return Delivery.ACCEPTED, "taken"


class ScriptedNotifier(_Receiver["Message"]):
    """`received` holds every message that arrived, in order, repeats included."""

    async def send(self, message: Message, *, deadline_s: float) -> tuple[Delivery, str]:
        """Take the message."""
        return await self._take(message, deadline_s)


class ScriptedAlerts(_Receiver["HostFailure"]):
    """A recovery controller: `received` holds every failure that it was told, repeats included."""

    async def send(self, failure: HostFailure, *, deadline_s: float) -> tuple[Delivery, str]:
        """Take the failure."""
        return await self._take(failure, deadline_s)


if TYPE_CHECKING:
    _conforms: type[Notifier] = ScriptedNotifier
    _takes: type[AlertDriver] = ScriptedAlerts
