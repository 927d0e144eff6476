"""Reads for people: rows as plain JSON-able values, each from one consistent snapshot.

Nothing here waits for the writer or for the engine; lists are bounded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from yaffle.engine.details import details_of
from yaffle.engine.queries.catalogue import Catalogue
from yaffle.engine.queries.decisions import Decisions
from yaffle.engine.queries.fleet import Fleet
from yaffle.engine.queries.history import History
from yaffle.engine.queries.incidents import Incidents
from yaffle.engine.queries.members import Members

if TYPE_CHECKING:
    from yaffle.engine.kit import Kit

__all__ = ["Queries"]


class Queries:
    """The reads of users."""

    def __init__(self, kit: Kit) -> None:
        self.read = kit.store.read
        """For lists that are read in portions, and rows that routes shape themselves."""

        self.drivers = kit.drivers
        """What is installed here: types and what they can do."""
        self.details = partial(details_of, kit)

        catalogue = Catalogue(kit)
        self.policies = catalogue.policies
        self.policy = catalogue.policy

        members = Members(kit)
        self.clusters = members.clusters
        self.cluster = members.cluster
        self.nodes = members.nodes
        self.count = members.count
        self.node = members.node

        incidents = Incidents(kit)
        self.incidents = incidents.incidents
        self.incident = incidents.incident

        self.engines = Fleet(kit).engines
        decided = Decisions(kit)
        self.decisions = decided.decisions
        self.check = decided.check

        history = History(kit)
        self.events = history.events
        self.actions = history.actions
        self.action = history.action
        self.pauses = history.pauses
        self.pause = history.pause
        self.outbox = history.outbox
