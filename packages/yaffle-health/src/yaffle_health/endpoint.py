"""The two-line start: a manager and an address, and the process can be asked how it is.

manager = yaffle_health.Manager(description="nova-compute")
yaffle_health.serve(manager, uri="unix:///run/nova/health.sock")
"""

from __future__ import annotations

import functools
import logging
import os
from typing import Unpack

from yaffle_health.errors import BadOption
from yaffle_health.http.answer import HealthOf
from yaffle_health.manager import Manager
from yaffle_health.sdnotify import Supervisor
from yaffle_health.server import Endpoint
from yaffle_health.server.loop import Ticker
from yaffle_health.server.options import EndpointOptions

_LOG = logging.getLogger("yaffle_health")


def serve(
    source: Manager | HealthOf,
    *,
    uri: str = "",
    notify: bool = False,
    notify_group: str | None = None,
    **options: Unpack[EndpointOptions],
) -> Endpoint:
    """Start an endpoint that lives as long as the process, or until it is closed.

    Never raises for an option that cannot be meant or an address that cannot be had, unless
    `required=True`: both are logged as errors and stand in `failures`. An empty `uri` is "disabled".
    `notify` tells systemd READY, STATUS and WATCHDOG by the health of `notify_group` (None: all).
    """
    health_of = source.health if isinstance(source, Manager) else source
    if isinstance(source, Manager):
        options.setdefault("ttl_s", source.ttl_s)
    if notify:
        options["tickers"] = (*options.get("tickers", ()), *_supervision(health_of, notify_group))
    try:
        endpoint = Endpoint(health_of, uri=uri, **options)
        return endpoint.start()
    except BadOption as error:
        if options.get("required"):
            raise
        _LOG.error("%s; the service goes on without its health endpoint", error)
        refused = Endpoint(health_of)
        refused.note(error)
        return refused


def _supervision(health_of: HealthOf, group: str | None) -> tuple[Ticker, ...]:
    supervisor = Supervisor.of(os.environ, functools.partial(health_of, group))
    return () if supervisor is None else (Ticker(supervisor.tick),)
