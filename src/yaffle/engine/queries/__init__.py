"""Reads for people: rows as plain JSON-able values, each from one consistent snapshot.

Nothing here waits for the writer or for the engine; lists are bounded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from yaffle.engine.queries.alerts import Alerts
from yaffle.engine.queries.catalogue import Catalogue
from yaffle.engine.queries.decisions import Decisions
from yaffle.engine.queries.fleet import Fleet
from yaffle.engine.queries.history import History
from yaffle.engine.queries.hosts import Hosts
from yaffle.engine.queries.incidents import Incidents
from yaffle.engine.queries.members import Members
from yaffle.engine.queries.node_details import details_of

if TYPE_CHECKING:
    from yaffle.engine.runtime.context import EngineContext

__all__ = ["Queries"]


class Queries:
    """The reads of users."""

    def __init__(self, ctx: EngineContext) -> None:
        self.read = ctx.store.read
        """For lists that are read in portions, and rows that routes shape themselves."""

        self.drivers = ctx.drivers
        """What is installed here: types and what they can do."""
        self.details = partial(details_of, ctx)

        catalogue = Catalogue(ctx)
        self.policies = catalogue.policies
        self.policy = catalogue.policy

        members = Members(ctx)
        self.clusters = members.clusters
        self.cluster = members.cluster
        self.nodes = members.nodes
        self.count = members.count
        self.node = members.node

        incidents = Incidents(ctx)
        self.incidents = incidents.incidents
        self.incident = incidents.incident

        self.engines = Fleet(ctx).engines
        decided = Decisions(ctx)
        self.decisions = decided.decisions
        self.check = decided.check

        history = History(ctx)
        self.events = history.events
        self.actions = history.actions
        self.action = history.action
        self.pauses = history.pauses
        self.pause = history.pause
        self.outbox = history.outbox

        alerts = Alerts(ctx)
        self.alerts = alerts.alerts
        self.alerts_of = alerts.alerts_of
        self.alert = alerts.alert
        hosts = Hosts(ctx)
        self.hosts = hosts.hosts
        self.host = hosts.host
        self.host_notifications = hosts.notifications
