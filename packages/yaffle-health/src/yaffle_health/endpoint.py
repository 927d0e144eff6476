"""The two-line start: a manager and an address, and the process can be asked how it is.

manager = yaffle_health.Manager(description="nova-compute")
yaffle_health.serve(manager, uri="unix:///run/nova/health.sock")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle_health.errors import BadOption
from yaffle_health.groups import warn_of_unknown
from yaffle_health.manager import Manager
from yaffle_health.options import text

if TYPE_CHECKING:
    from typing import Unpack

    from yaffle_health.http.answer import HealthOf
    from yaffle_health.model import Health
    from yaffle_health.server import Endpoint
    from yaffle_health.server.loop import Ticker
    from yaffle_health.server.options import EndpointOptions


def serve(
    source: Manager | HealthOf,
    *,
    uri: str | None = "",
    notify: bool = False,
    notify_group: str | None = None,
    **options: Unpack[EndpointOptions],
) -> Endpoint:
    """Start an endpoint that lives as long as the process, or until it is closed.

    Never raises for an option that cannot be meant or an address that cannot be had, unless
    `required=True`: both are logged as errors and stand in `failures`. An empty `uri`, or None, is
    "disabled". A `group` that nobody has declared so far is served, and warned of.
    `notify` tells systemd READY, STATUS and WATCHDOG by the health of `notify_group` (None: all).
    """
    # Imported by who listens: it is half of what all of this costs to import.
    from yaffle_health.server import Endpoint

    health_of = source.health if isinstance(source, Manager) else source
    if isinstance(source, Manager):
        options.setdefault("ttl_s", source.ttl_s)
    try:
        endpoint = Endpoint(health_of, uri=uri, **options)
        text("notify_group", notify_group)
        if notify:
            endpoint.add(*_supervision(health_of, notify_group))
        if isinstance(source, Manager):
            warn_of_unknown(source.groups, group=options.get("group"), notify_group=notify_group)
        return endpoint.start()
    except BadOption as error:
        if options.get("required"):
            raise
        import logging

        told = "%s; the service goes on without its health endpoint"
        logging.getLogger("yaffle_health").error(told, error)  # noqa: TRY400  its message says it all
        refused = Endpoint(_nothing)
        refused.note(error)
        return refused


def _nothing(group: str | None) -> Health:
    raise AssertionError(f"asked about {group}, with no address to be asked at")


def _supervision(health_of: HealthOf, group: str | None) -> tuple[Ticker, ...]:
    import functools
    import os

    from yaffle_health.sdnotify import Supervisor
    from yaffle_health.server.loop import Ticker

    supervisor = Supervisor.of(os.environ, functools.partial(health_of, group))
    return () if supervisor is None else (Ticker(supervisor.tick),)
