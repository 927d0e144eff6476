"""Tells the news to an HTTP receiver, signed, and says whether trying again is worth it.

Body: `{"id", "topic", "at", "attempt", "sequence", "data"}`, `at` in ISO 8601 UTC. Every
attempt carries the same id, also as `Idempotency-Key`; receivers check the signature with
`yaffle.integrations.signing.verify` and keep two secrets while a secret is being changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.integrations.driver_settings import Section
from yaffle.integrations.http import (
    HttpSession,
    NoAnswer,
    address_rules,
    judge,
    one_line,
    read_ca_file,
    read_url,
    to_json,
)
from yaffle.integrations.signing import is_signable, sign
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext
from yaffle.ports.notifier import Message, Notifier

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Section `notifiers.NAME` with `type = "webhook"`."""

    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    """From `secret_file`, `secret_env` or `secret`; at least 16 bytes."""
    headers: dict[str, str] = field(repr=False)
    timeout_s: float
    """`timeout`: of one attempt; the outbox's deadline may be shorter."""
    ca_file: Path | None

    @classmethod
    def read(cls, section: Section) -> WebhookSettings:
        """Raise ConfigError for what is missing, wrong or unknown."""
        settings = cls(
            url=read_url(section, "url"),
            secret=section.secret(),
            headers=section.headers(),
            timeout_s=section.number("timeout", 10, low=0.1, high=300),
            ca_file=read_ca_file(section),
        )
        section.finish()
        return settings


class WebhookNotifier:
    """POSTs one message at a time; the outbox owns order, pace and number of attempts."""

    type: ClassVar[str] = "webhook"

    def __init__(self, context: DriverContext) -> None:
        section = Section(context.section or "notifiers.webhook", context.settings)
        self._settings = WebhookSettings.read(section)
        self._session = HttpSession(address_rules(context), ca_file=self._settings.ca_file)
        self._clock = context.clock

    async def send(self, message: Message, *, deadline_s: float) -> tuple[Delivery, str]:
        """Send once; the id of the message makes a repeat harmless for the receiver."""
        if not is_signable(message.id):
            return Delivery.REFUSED, f"message id {one_line(message.id, 40)!r} cannot be signed"
        try:
            body = _body(message)
        except (TypeError, ValueError) as error:
            return Delivery.REFUSED, f"the message has no JSON form: {one_line(str(error))}"
        answer = await self._session.request(
            "POST",
            self._settings.url,
            headers=self._headers(message.id, body),
            body=body,
            deadline_s=min(deadline_s, self._settings.timeout_s),
        )
        if isinstance(answer, NoAnswer):
            # A refused address too: news waits until the operator has put the name right.
            return Delivery.RETRY, answer.detail
        return judge(answer)

    def _headers(self, message_id: str, body: bytes) -> dict[str, str]:
        now_s = self._clock.now_us() // 1_000_000
        return {
            **self._settings.headers,
            "Content-Type": "application/json",
            "Idempotency-Key": message_id,
            **sign(self._settings.secret, message_id=message_id, timestamp_s=now_s, body=body),
        }


def _body(message: Message) -> bytes:
    at = _EPOCH + timedelta(microseconds=message.at_us)
    return to_json(
        {
            "id": message.id,
            "topic": message.topic,
            "at": at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "attempt": message.attempt,
            "sequence": message.sequence,
            "data": message.body,
        }
    )


if TYPE_CHECKING:
    _conforms: type[Notifier] = WebhookNotifier
