"""Writes the news to the log: the notifier that needs no receiver and works from the start."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from yaffle.integrations.driver_settings import Section
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext
from yaffle.ports.notifier import Message, Notifier

_LEVELS: Final = MappingProxyType(
    {
        "incident.opened": "warning",
        "incident.held": "warning",
        "incident.attempt-failed": "warning",
        "incident.exhausted": "error",
    }
)


class LogNotifier:
    """Notifier that logs a structlog line a message: the topic is the event, the body field `data`."""

    type: ClassVar[str] = "log"

    def __init__(self, context: DriverContext) -> None:
        Section(context.section or "notifiers.log", context.settings).finish()
        self._log = structlog.get_logger("yaffle.notifications")

    async def send(self, message: Message, *, deadline_s: float) -> tuple[Delivery, str]:
        """Write the line; always accepted."""
        write = getattr(self._log, _LEVELS.get(message.topic, "info"))
        write(
            message.topic,
            message_id=message.id,
            at_us=message.at_us,
            attempt=message.attempt,
            data=dict(message.body),
        )
        return Delivery.ACCEPTED, "written to the log"


if TYPE_CHECKING:
    _conforms: type[Notifier] = LogNotifier
