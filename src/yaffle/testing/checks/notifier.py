"""The promises of `ports.Notifier` and `ports.AlertDriver`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.model.host_failure import HostFailure
from yaffle.model.operations import Delivery
from yaffle.ports import Message
from yaffle.testing.checks.timing import SHORT_S, bounded, new_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from yaffle.ports import AlertDriver, Clock, Notifier
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
    await _check(lambda s: notifier.send(message, deadline_s=s), clock, hang)


async def check_alert_driver(
    driver: AlertDriver, *, clock: Clock, hang: Hang | None = None
) -> None:
    """Tell a controller that is well of a failure, twice, then one that hangs."""
    now_s = clock.now_us() // 1_000_000
    failure = HostFailure(
        id=new_id(),
        hostname="compute1.example.org",
        failure_s=now_s - 12,
        generated_s=now_s,
        on_shared_storage=True,
        proof="read back: off",
    )
    # An answer may be lost, and then the same is told again.
    for _ in range(2):
        await _check(lambda s: driver.send(failure, deadline_s=s), clock, None)
    await _check(lambda s: driver.send(failure, deadline_s=s), clock, hang)


async def _check(
    send: Callable[[float], Awaitable[tuple[Delivery, str]]], clock: Clock, hang: Hang | None
) -> None:
    done, said = await bounded(clock, "send", send)
    assert done is Delivery.ACCEPTED, f"a receiver that is well accepts: {said}"
    assert "\n" not in said, "what the receiver said is one line"
    if hang is None:
        return
    async with hang():
        done, said = await bounded(clock, "send", send, SHORT_S)
    assert done is Delivery.RETRY, f"silence is worth another attempt, not {done}: {said}"
