"""Notifiers tell the news; the outbox decides when and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from yaffle.model.operations import Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A notification. The id is the same on every attempt, so that receivers can deduplicate."""

    id: str
    topic: str
    """incident.opened, incident.held, incident.recovered, incident.attempt-failed, …"""
    at_us: int
    body: Mapping[str, object]
    attempt: int
    sequence: int
    """Rises with each message about an incident, so that a late repeat is told from what is new."""


class Notifier(Protocol):
    """Deliver one message in bounded time and say whether trying again is worth it."""

    type: ClassVar[str]

    async def send(self, message: Message, *, deadline_s: float) -> tuple[Delivery, str]:
        """Return what the receiver did and one line about it."""
        ...
