"""Tells the news to an HTTP receiver, signed, and says whether trying again is worth it.

Body: `{"id", "topic", "at", "attempt", "sequence", "data"}`, `at` in ISO 8601 UTC. How it is sent and
signed: `integrations/signed_post.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.integrations.signed_post import SignedPost
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext
from yaffle.ports.notifier import Message, Notifier

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class WebhookNotifier:
    """POSTs one message at a time; the outbox owns order, pace and number of attempts."""

    type: ClassVar[str] = "webhook"

    def __init__(self, context: DriverContext) -> None:
        self.post = SignedPost(context, "notifiers.webhook")

    async def send(self, message: Message, *, deadline_s: float) -> tuple[Delivery, str]:
        """Send once; the id of the message makes a repeat harmless for the receiver."""
        return await self.post.send(message.id, _document(message), deadline_s=deadline_s)


def _document(message: Message) -> dict[str, object]:
    at = _EPOCH + timedelta(microseconds=message.at_us)
    return {
        "id": message.id,
        "topic": message.topic,
        "at": at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "attempt": message.attempt,
        "sequence": message.sequence,
        "data": message.body,
    }


if TYPE_CHECKING:
    _conforms: type[Notifier] = WebhookNotifier
