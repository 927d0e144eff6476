"""Tells a host's failure as the JSON of seed 3, over HTTP or HTTPS.

    {"id": UUID, "event_type": "host failure", "version": "1.0", "generated_time": SECONDS,
     "payload": {"hostname": FQDN, "on_shared_storage": BOOLEAN, "failure_time": SECONDS}}

Times are whole seconds since the epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from yaffle.integrations.posted_alerts import PostedAlerts
from yaffle.model.host_failure import HostFailure
from yaffle.ports.alert_driver import AlertDriver


class HttpJsonAlerts(PostedAlerts):
    """POSTs the JSON of OpenStack's host monitoring specification."""

    type: ClassVar[str] = "http_json"

    def document(self, failure: HostFailure) -> dict[str, object]:
        """Return seed 3's JSON."""
        return {
            "id": failure.id,
            "event_type": "host failure",
            "version": "1.0",
            "generated_time": failure.generated_s,
            "payload": {
                "hostname": failure.hostname,
                "on_shared_storage": failure.on_shared_storage,
                "failure_time": failure.failure_s,
            },
        }


if TYPE_CHECKING:
    _conforms: type[AlertDriver] = HttpJsonAlerts
