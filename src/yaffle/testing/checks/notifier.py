"""The promises of `ports.Notifier`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.model.operations import Delivery
from yaffle.ports import Message
from yaffle.testing.checks.timing import SHORT_S, bounded, new_id

if TYPE_CHECKING:
    from yaffle.ports import Clock, Notifier
    from yaffle.testing.checks.timing import Hang


async def check_notifier(notifier: Notifier, *, clock: Clock, hang: Hang | None = None) -> None:
    """Send news to a receiver that is well, then to one that hangs."""
    message = Message(
        id=new_id(),
        topic="incident.opened",
        at_us=clock.now_us(),
        body={"node": "n"},
        attempt=1,
        sequence=1,
    )
    done, said = await bounded(clock, "send", lambda s: notifier.send(message, deadline_s=s))
    assert done is Delivery.ACCEPTED, f"a receiver that is well accepts: {said}"
    assert "\n" not in said, "what the receiver said is one line"
    if hang is None:
        return
    async with hang():
        done, said = await bounded(
            clock, "send", lambda s: notifier.send(message, deadline_s=s), SHORT_S
        )
    assert done is Delivery.RETRY, f"silence is worth another attempt, not {done}: {said}"
