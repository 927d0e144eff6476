"""Tells a host's failure as the JSON of seed 3, over HTTP or HTTPS.

    {"id": UUID, "event_type": "host failure", "version": "1.0", "generated_time": SECONDS,
     "payload": {"hostname": FQDN, "on_shared_storage": BOOLEAN, "failure_time": SECONDS}}

Times are whole seconds since the epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from yaffle.integrations.signed_post import SignedPost
from yaffle.model.host_failure import HostFailure
from yaffle.model.operations import Delivery
from yaffle.ports.alert_driver import AlertDriver
from yaffle.ports.context import DriverContext


class HttpJsonAlerts:
    """POSTs the JSON of OpenStack's host monitoring specification."""

    type: ClassVar[str] = "http_json"

    def __init__(self, context: DriverContext) -> None:
        self.post = SignedPost(context, "alerts.http_json", signed=False)

    async def send(self, failure: HostFailure, *, deadline_s: float) -> tuple[Delivery, str]:
        """Send once; the id makes a repeat harmless for the receiver."""
        return await self.post.send(failure.id, failure.document(), deadline_s=deadline_s)


if TYPE_CHECKING:
    _conforms: type[AlertDriver] = HttpJsonAlerts
