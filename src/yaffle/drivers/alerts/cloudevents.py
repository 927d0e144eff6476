"""Tells a host's failure as a CloudEvent (specification 1.0, JSON in structured mode) over HTTP.

`source` and `id` together name the event; the data is the payload of seed 3.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.integrations.posted_alerts import PostedAlerts
from yaffle.model.host_failure import HostFailure
from yaffle.ports.alert_driver import AlertDriver

SOURCE: Final = "/yaffle/hosts"
EVENT: Final = "yaffle.host.failure"


class CloudEventsAlerts(PostedAlerts):
    """POSTs a CloudEvent of the type `yaffle.host.failure`."""

    type: ClassVar[str] = "cloudevents"
    content_type: ClassVar[str] = "application/cloudevents+json"

    def document(self, failure: HostFailure) -> dict[str, object]:
        """Return the event; its time is when the failure was written down."""
        at = datetime.fromtimestamp(failure.generated_s, UTC)
        return {
            "specversion": "1.0",
            "id": failure.id,
            "source": SOURCE,
            "type": EVENT,
            "subject": failure.hostname,
            "time": at.isoformat().replace("+00:00", "Z"),
            "datacontenttype": "application/json",
            "data": {
                "hostname": failure.hostname,
                "on_shared_storage": failure.on_shared_storage,
                "failure_time": failure.failure_s,
            },
        }


if TYPE_CHECKING:
    _conforms: type[AlertDriver] = CloudEventsAlerts
