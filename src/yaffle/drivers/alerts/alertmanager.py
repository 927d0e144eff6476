"""Shows a host's failure in Prometheus Alertmanager (API v2): firing until somebody has taken it over.

Alertmanager knows an alert by its labels, so that a repeat changes nothing. It shows one until the time
that it was told as its end: here that is far away, and comes when the failure is settled.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.integrations.signed_post import SignedPost
from yaffle.model.host_failure import HostFailure
from yaffle.model.operations import Delivery
from yaffle.ports.alert_driver import AlertDriver, SupportsResolution
from yaffle.ports.context import DriverContext

NAME: Final = "YaffleHostFailed"
LONGEST_S: Final = 30 * 86_400
"""A failure that nobody has taken over for so long is shown no more; it waits on, and is listed."""


class AlertmanagerAlerts:
    """POSTs to `/api/v2/alerts`."""

    type: ClassVar[str] = "alertmanager"

    def __init__(self, context: DriverContext) -> None:
        self.post = SignedPost(context, "alerts.alertmanager", signed=False)
        self._clock = context.clock

    async def send(self, failure: HostFailure, *, deadline_s: float) -> tuple[Delivery, str]:
        """Have it fire; the same at every attempt."""
        ends_s = failure.failure_s + LONGEST_S
        return await self._post(failure, ends_s, deadline_s)

    async def resolve(self, failure: HostFailure, *, deadline_s: float) -> tuple[Delivery, str]:
        """Have it end now."""
        ends_s = max(failure.failure_s, self._clock.now_us() // 1_000_000)
        return await self._post(failure, ends_s, deadline_s)

    async def _post(
        self, failure: HostFailure, ends_s: int, deadline_s: float
    ) -> tuple[Delivery, str]:
        alert = {
            "labels": {
                "alertname": NAME,
                "severity": "critical",
                "host": failure.hostname,
                "failure": failure.id,
            },
            "annotations": {
                "summary": f"host {failure.hostname} failed and is off",
                "description": failure.proof,
            },
            "startsAt": _time(failure.failure_s),
            "endsAt": _time(ends_s),
        }
        return await self.post.send(failure.id, [alert], deadline_s=deadline_s)


def _time(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


if TYPE_CHECKING:
    _conforms: type[AlertDriver] = AlertmanagerAlerts
    _resolves: type[SupportsResolution] = AlertmanagerAlerts
