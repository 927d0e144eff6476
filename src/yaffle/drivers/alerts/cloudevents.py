"""Tells a host's failure as a CloudEvent (specification 1.0, JSON in structured mode) over HTTP.

`source` and `id` together name the event; the data is the payload of seed 3.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.integrations.signed_post import SignedPost
from yaffle.model.host_failure import HostFailure
from yaffle.model.operations import Delivery
from yaffle.ports.alert_driver import AlertDriver
from yaffle.ports.context import DriverContext

SOURCE: Final = "/yaffle/hosts"
EVENT: Final = "yaffle.host.failure"
CONTENT_TYPE: Final = "application/cloudevents+json"


class CloudEventsAlerts:
    """POSTs a CloudEvent of the type `yaffle.host.failure`."""

    type: ClassVar[str] = "cloudevents"

    def __init__(self, context: DriverContext) -> None:
        self.post = SignedPost(context, "alerts.cloudevents", signed=False)

    async def send(self, failure: HostFailure, *, deadline_s: float) -> tuple[Delivery, str]:
        """Send once; id and source make a repeat harmless for the receiver."""
        return await self.post.send(
            failure.id, _document(failure), content_type=CONTENT_TYPE, deadline_s=deadline_s
        )


def _document(failure: HostFailure) -> dict[str, object]:
    # When the failure was written down: the same at every attempt.
    at = datetime.fromtimestamp(failure.generated_s, UTC)
    return {
        "specversion": "1.0",
        "id": failure.id,
        "source": SOURCE,
        "type": EVENT,
        "subject": failure.hostname,
        "time": at.isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": failure.payload(),
    }


if TYPE_CHECKING:
    _conforms: type[AlertDriver] = CloudEventsAlerts
