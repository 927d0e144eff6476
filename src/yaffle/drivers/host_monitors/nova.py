"""Sees hosts as Nova does, for a second opinion: one that Nova hears of is up, of others it says nothing.

Nova calls a host down when its nova-compute has not reported for a minute: a message bus that is away
does that to all of them. So nothing is lost by Nova's word alone, and nobody is fenced for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from yaffle.errors import YaffleError
from yaffle.integrations.driver_settings import Section
from yaffle.integrations.openstack import Client, Cloud, CloudsYaml, read_credentials
from yaffle.integrations.openstack.servers.queries import Servers
from yaffle.ports.host_monitor import (
    HostMonitor,
    HostReport,
    HostSighting,
    MonitorBlind,
    Seen,
    is_named,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.integrations.openstack.servers.documents import Service
    from yaffle.ports.context import DriverContext


@dataclass(frozen=True, slots=True, kw_only=True)
class NovaMonitorSettings:
    """Section `host_monitors.NAME` with `type = "nova"`."""

    credentials: CloudsYaml
    """`cloud` and `clouds_file`: whose hosts they are; an administrator's, for others see none."""
    hosts: tuple[str, ...]
    """Which of them, by name; `*` and `?` stand for others."""

    @classmethod
    def read(cls, section: Section) -> NovaMonitorSettings:
        """Raise ConfigError for what is missing, wrong or unknown."""
        settings = cls(
            credentials=read_credentials(section),
            hosts=section.patterns("hosts"),
        )
        section.finish()
        return settings


class NovaMonitor:
    """Asks Nova for its services."""

    type: ClassVar[str] = "nova"
    by_hand: ClassVar[str] = ""

    def __init__(self, context: DriverContext) -> None:
        values = {**context.settings, **({"cloud": context.cloud} if context.cloud else {})}
        section = Section(context.section or "host_monitors.nova", values)
        self._settings = NovaMonitorSettings.read(section)
        self._cloud = Cloud(self._settings.credentials, context.clock, threads=1)

    async def look(self, *, deadline_s: float) -> HostReport | MonitorBlind:
        """Return who Nova hears of; how the others are is not known."""
        try:
            services = await self._cloud.call(_services, deadline_s)
        except TimeoutError:
            return MonitorBlind(why=f"Nova did not answer within {deadline_s:g} s")
        except YaffleError as error:
            return MonitorBlind(why=str(error)[:500])
        if services is None:
            return MonitorBlind(why="our credentials may not see Nova's services")
        wanted = {
            host: service
            for host, service in services.items()
            if is_named(host, self._settings.hosts)
        }
        return HostReport(
            sightings=tuple(
                HostSighting(host=host, seen=Seen.UP, why=f"Nova: {service.said}")
                for host, service in wanted.items()
                if service.up
            ),
            fencings=(),
            unknown={
                host: f"Nova: {service.said}, which alone is no failure"
                for host, service in wanted.items()
                if not service.up
            },
        )


def _services(client: Client) -> Mapping[str, Service] | None:
    return Servers(client).services()


if TYPE_CHECKING:
    _conforms: type[HostMonitor] = NovaMonitor
