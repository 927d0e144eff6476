"""Tells the receiver of a lifecycle hook that a node is about to go; its address is in the message.

The address comes from a user's policy, so it is spoken to under the same rules as poll URLs
(`network.allow`, `network.deny`). Body: Senlin's message, unsigned, for a policy holds no secret:
`{"lifecycle_action_token", "node_id", "physical_id", "cluster_id", "lifecycle_transition_type"}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.integrations.driver_settings import Section
from yaffle.integrations.http import HttpSession, NoAnswer, address_rules, judge, to_json
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext
from yaffle.ports.notifier import Message, Notifier

TIMEOUT_S: Final = 10.0


class LifecycleHookNotifier:
    """POSTs to the URL in the message; the outbox owns order, pace and number of attempts."""

    type: ClassVar[str] = "lifecycle-hook"

    def __init__(self, context: DriverContext) -> None:
        Section(f"notifiers.{self.type}", context.settings).finish()
        self._session = HttpSession(address_rules(context))

    async def send(self, message: Message, *, deadline_s: float) -> tuple[Delivery, str]:
        """Send once; the token in the message makes a repeat harmless for the receiver."""
        url, body = message.body.get("url"), message.body.get("message")
        if not isinstance(url, str) or not isinstance(body, Mapping):
            return Delivery.REFUSED, "the message names no receiver"
        answer = await self._session.request(
            "POST",
            url,
            headers={"Content-Type": "application/json", "Idempotency-Key": message.id},
            body=to_json(dict(body)),
            deadline_s=min(deadline_s, TIMEOUT_S),
        )
        if isinstance(answer, NoAnswer):
            return Delivery.RETRY, answer.detail
        return judge(answer)


if TYPE_CHECKING:
    _conforms: type[Notifier] = LifecycleHookNotifier
