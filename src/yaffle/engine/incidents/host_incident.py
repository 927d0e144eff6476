"""The incident of a failed host, parent of its nodes' incidents.

It is opened with the first node that is found to fail with its host, follows what is done about its
nodes, and ends with the last of them (`lifecycle.transition`). The notifiers hear of the host, and of a
node that is part of it only when that needs a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.core.planning.host_attribution import (
    Count,
    Fault,
    HostReport,
    host_report,
    judge,
    key_of,
    keys_of,
    sentence,
)
from yaffle.engine.action_inputs.target_mapping import host_of
from yaffle.engine.incidents import lifecycle
from yaffle.model.incident import IncidentState
from yaffle.store import incidents

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.core.health.verdict import NodeMemory
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.ids import IncidentId, NodeId
    from yaffle.store.rows import IncidentRow, NodeRow

Counts = Mapping[str, Count]
"""What was counted of each host on which a node of the cluster is unhealthy, by the host's name."""
NO_HOSTS: Final[Counts] = MappingProxyType({})
FAULTS: Final = (Fault.HOST_LOST, Fault.HOST_UNCLEAR)


def lost_hosts(conn: Connection, names: Iterable[str]) -> frozenset[str]:
    """Return which of these hosts have an open incident as lost."""
    keys = {name: keys_of(name) for name in names}
    found = incidents.open_by_key(conn, {k for own in keys.values() for k in own}) if keys else {}
    lost = {key for key, row in found.items() if row.cause == Fault.HOST_LOST}
    return frozenset(name for name, own in keys.items() if lost.intersection(own))


def host_report_of(
    row: NodeRow, memory: NodeMemory, counts: Counts, lost: frozenset[str]
) -> HostReport | None:
    """Return what is known of a node's host; None where nothing is to be said of it."""
    name = host_of(row)
    if name not in counts:
        return None
    return host_report(name, counts[name], memory, lost=name in lost)


class HostIncidents:
    """The incidents of hosts in one transaction: each is looked for once."""

    def __init__(self, ctx: EngineContext, conn: Connection, now_us: int) -> None:
        self._ctx, self._conn, self._now_us = ctx, conn, now_us
        self._known: dict[str, IncidentRow] = {}

    def of(self, seen: HostReport | None, first_fail_us: int | None) -> IncidentRow | None:
        """Return the incident of the host that a node failed with, opened now if there was none."""
        fault = judge(seen)
        if seen is None or fault is Fault.NODE:
            return None
        row = self._known.get(seen.name) or self._open(seen, fault, first_fail_us)
        if fault is Fault.HOST_LOST and row.cause != fault:
            incidents.set_values(self._conn, row.id, cause=fault.value)
            row = self._again(seen.name)
            self._told(row, IncidentState.OPEN, sentence(seen))
        self._known[seen.name] = row
        return row

    def join(self, row: IncidentRow, nodes: Iterable[NodeId]) -> None:
        """Let the open incidents of nodes that failed with the host be part of its own."""
        incidents.join(self._conn, row.id, nodes)

    def moved(
        self,
        parent: IncidentRow,
        state: IncidentState,
        why: str,
        *,
        hold_reason: str | None = None,
        hold_numbers: Mapping[str, object] | None = None,
    ) -> None:
        """Say what is done about the host's nodes; the same of one more of them is no news.

        A recovery under way outweighs the holds of those that wait for their turn.
        """
        row = self._again_by_id(parent)
        if row.state == state or (
            state is IncidentState.HELD and row.state == IncidentState.RECOVERING
        ):
            return
        self._told(row, state, why, hold_reason=hold_reason, hold_numbers=hold_numbers)

    def _open(self, seen: HostReport, fault: Fault, first_fail_us: int | None) -> IncidentRow:
        present = self._present(seen.name)
        if present is not None:
            return present
        row = lifecycle.open_host(
            self._ctx,
            self._conn,
            seen.name,
            key_of(seen.name),
            cause=fault.value,
            now_us=self._now_us,
            reason=sentence(seen),
            first_fail_us=first_fail_us,
        )
        self._told(row, IncidentState.OPEN, sentence(seen))
        return row

    def _told(
        self,
        row: IncidentRow,
        state: IncidentState,
        why: str,
        **columns: object,
    ) -> None:
        lifecycle.transition(
            self._ctx,
            self._conn,
            None,
            row,
            state,
            reason=why,
            now_us=self._now_us,
            tell=True,
            **columns,
        )

    def _present(self, name: str) -> IncidentRow | None:
        found = incidents.open_by_key(self._conn, keys_of(name))
        return next((found[key] for key in keys_of(name) if key in found), None)

    def _again(self, name: str) -> IncidentRow:
        row = self._present(name)
        assert row is not None  # noqa: S101 - it was open above, in this very transaction
        return row

    def _again_by_id(self, row: IncidentRow) -> IncidentRow:
        key = row.open_key or ""
        return incidents.open_by_key(self._conn, [key]).get(key, row)


def left_open(conn: Connection) -> Sequence[IncidentId]:
    """Return the open incidents of hosts of which no part goes on."""
    found = (row for fault in FAULTS for row in incidents.open_of_cause(conn, fault.value))
    # A node that failed with its host has the same cause.
    whole = [row.id for row in found if not row.node_id]
    return [i for i in whole if incidents.states_of_parts(conn, i).keys() <= lifecycle.ENDED]


def close_left(ctx: EngineContext, conn: Connection, now_us: int) -> None:
    """End the incidents of hosts of which no part goes on: engines of before know of no parts."""
    for ident in left_open(conn):
        lifecycle.host_over(ctx, conn, ident, now_us)
