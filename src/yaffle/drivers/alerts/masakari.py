"""Tells Masakari of a failed host, as masakari-monitors do, and keeps at it until Masakari has it.

    202                                   accepted
    409, a duplicate                      accepted, once the notification that it repeats is found
    409, the host is under maintenance    accepted, and said: Masakari recovers nothing there
    400, no such host; any other 4xx      refused: the host may be registered later
    401 after a new token, 5xx, silence   tried again

Masakari takes for a duplicate what is no more than 180 s newer than what it holds for the same host,
and looks at no status. So the answer to a repeat of ours, whose first answer was lost, is 409; and so is
that to a failure behind a notification that a wrong clock has stamped years ahead, which nobody recovers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from yaffle.errors import BadRequest, Conflict, Forbidden, NotFound, OverQuota
from yaffle.integrations.driver_settings import Section
from yaffle.integrations.openstack import (
    Client,
    Cloud,
    CloudsYaml,
    CloudUnavailable,
    read_credentials,
)
from yaffle.model.host_failure import HostFailure
from yaffle.model.msgspec_init import prepared
from yaffle.model.operations import Delivery
from yaffle.ports.alert_driver import AlertDriver
from yaffle.ports.context import DriverContext

SERVICE: Final = "instance-ha"
KIND: Final = "COMPUTE_HOST"
PAYLOAD: Final[Mapping[str, str]] = {
    "event": "STOPPED",
    # It is fenced: of any other host Masakari recovers nothing.
    "host_status": "NORMAL",
    "cluster_status": "OFFLINE",
}
SAME_S: Final = 180.0
"""Masakari's `duplicate_notification_detection_interval`, unless its operator has changed it."""
PAGE: Final = 1000


@prepared
class _Held(msgspec.Struct, frozen=True, kw_only=True):
    notification_uuid: str
    generated_time: str
    status: str = ""
    payload: object = None


class _Notifications(msgspec.Struct, frozen=True):
    notifications: tuple[_Held, ...]


class _Named(msgspec.Struct, frozen=True, kw_only=True):
    uuid: str
    name: str = ""


class _Segments(msgspec.Struct, frozen=True):
    segments: tuple[_Named, ...]


class _Hosts(msgspec.Struct, frozen=True):
    hosts: tuple[_Named, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MasakariSettings:
    """Section `alerts.NAME` with `type = "masakari"`."""

    credentials: CloudsYaml
    """`cloud` and `clouds_file`: whose notifications they are; an administrator's."""
    names: dict[str, str]
    """What Masakari calls a host, by its fully qualified name, where that is another."""

    @classmethod
    def read(cls, section: Section) -> MasakariSettings:
        """Raise ConfigError for what is missing, wrong or unknown."""
        settings = cls(credentials=read_credentials(section), names=section.text_table("names"))
        section.finish()
        return settings


class MasakariAlerts:
    """POSTs a notification of the type COMPUTE_HOST with an administrator's credentials."""

    type: ClassVar[str] = "masakari"

    def __init__(self, context: DriverContext) -> None:
        section = Section(context.section or "alerts.masakari", context.settings)
        self._settings = MasakariSettings.read(section)
        self._cloud = Cloud(self._settings.credentials, context.clock, threads=2)

    async def send(self, failure: HostFailure, *, deadline_s: float) -> tuple[Delivery, str]:
        """Send once, with the times that the failure has: a repeat is known as such."""
        name = self._settings.names.get(failure.hostname, failure.hostname)
        try:
            return await self._cloud.call(lambda client: _told(client, failure, name), deadline_s)
        except TimeoutError:
            return Delivery.RETRY, f"no answer within {deadline_s:g} s"
        except CloudUnavailable as error:
            return Delivery.RETRY, str(error)
        except (BadRequest, NotFound, Forbidden, OverQuota) as error:
            return Delivery.REFUSED, str(error)


def _told(client: Client, failure: HostFailure, name: str) -> tuple[Delivery, str]:
    at = datetime.fromtimestamp(failure.generated_s, UTC)
    body = {
        "type": KIND,
        "hostname": name,
        "generated_time": at.isoformat().replace("+00:00", "Z"),
        "payload": dict(PAYLOAD),
    }
    try:
        client.act("POST", SERVICE, "/notifications", body={"notification": body})
    except Conflict as error:
        # With a blank, which no host's name has: the answers quote it.
        if "already under maintenance" in str(error):
            return Delivery.ACCEPTED, f"Masakari recovers nothing there: {error}"
        if " is duplicate" not in str(error):
            return Delivery.REFUSED, str(error)
        return _repeated(client, name, at)
    return Delivery.ACCEPTED, "202 Accepted"


def _repeated(client: Client, name: str, at: datetime) -> tuple[Delivery, str]:
    """Say what becomes of a failure that Masakari takes for one that it has."""
    found = _held(client, name)
    near = [one for one in found if abs((_time(one) - at).total_seconds()) <= SAME_S]
    if near:
        one = near[0]
        return Delivery.ACCEPTED, f"it has it: notification {one.notification_uuid}, {one.status}"
    ahead = ", ".join(f"{one.notification_uuid} of {one.generated_time}" for one in found[:1])
    return (
        Delivery.REFUSED,
        f"taken for a duplicate of another failure: {ahead or 'none is listed'}",
    )


def _held(client: Client, name: str) -> list[_Held]:
    """Return the notifications that Masakari has of the host, the newest first."""
    found: list[_Held] = []
    for segment in client.get(SERVICE, "/segments").parsed(_Segments).segments:
        hosts = client.get(SERVICE, f"/segments/{segment.uuid}/hosts").parsed(_Hosts).hosts
        for host in (one for one in hosts if one.name == name):
            query: dict[str, str | int] = {
                "source_host_uuid": host.uuid,
                "type": KIND,
                "sort_key": "generated_time",
                "sort_dir": "desc",
                "limit": PAGE,
            }
            answer = client.get(SERVICE, "/notifications", query=query)
            found += answer.parsed(_Notifications).notifications
    # Only what says the same is a duplicate: that a host is back, say, is no failure told.
    return [one for one in found if one.payload == PAYLOAD]


def _time(one: _Held) -> datetime:
    moment = datetime.fromisoformat(one.generated_time)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


if TYPE_CHECKING:
    _conforms: type[AlertDriver] = MasakariAlerts
