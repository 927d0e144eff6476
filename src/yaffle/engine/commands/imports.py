"""Writes an import from a Senlin, under the ids that clients know, in one transaction.

Nothing is built, and no action is queued: a node is adopted with its physical id as it is. A dry run
says the same as the real one would, and changes nothing; a run that broke off is run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from yaffle.core.imports.dump import ORDER, Row
from yaffle.core.imports.items import (
    Item,
    Kind,
    PolicyItem,
    ProfileItem,
    Unreadable,
    ids,
    read,
)
from yaffle.core.imports.plan import Planner
from yaffle.core.imports.planned import Outcome, Planned, Present
from yaffle.engine.commands.policy_validation import Installed
from yaffle.errors import BadRequest
from yaffle.model.action import ActionKind
from yaffle.model.authz import Principal, Right, need
from yaffle.store import catalog, events, receivers
from yaffle.store.receivers import masked, stored_id
from yaffle.store.rows import (
    BindingRow,
    ClusterRow,
    NodeRow,
    PolicyRow,
    ProfileRow,
    ReceiverRow,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.commands.context import CommandContext

OBJECTS_MAX: Final = 2000
"""Of one request: its transaction holds up everybody else's."""
TIMEOUT_S: Final = 20.0
ROWS: Final[Mapping[Kind, type]] = {
    Kind.PROFILE: ProfileRow,
    Kind.POLICY: PolicyRow,
    Kind.CLUSTER: ClusterRow,
    Kind.NODE: NodeRow,
    Kind.BINDING: BindingRow,
    Kind.RECEIVER: ReceiverRow,
}
EVENTS: Final[Mapping[Kind, tuple[str, str]]] = {
    Kind.PROFILE: ("PROFILE", "PROFILE_IMPORT"),
    Kind.POLICY: ("POLICY", "POLICY_IMPORT"),
    Kind.CLUSTER: ("CLUSTER", "CLUSTER_IMPORT"),
    Kind.NODE: ("NODE", "NODE_IMPORT"),
    Kind.BINDING: ("CLUSTER", ActionKind.CLUSTER_ATTACH_POLICY),
    Kind.RECEIVER: ("RECEIVER", "RECEIVER_IMPORT"),
}
"""What each is told about and as; a binding is told by its cluster's."""

Lists = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """A request to import."""

    lists: Lists
    """The API's lists by name."""
    assumed: Lists = field(default_factory=dict)
    """Of a dry run in pieces: what earlier pieces would have created and this one refers to."""
    project: str | None = None
    """Everything goes to this project; None keeps each object's own."""
    dry_run: bool = True


class Imports:
    """Plans imports, and carries them out."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def import_objects(
        self, who: Principal, asked: Import, *, base_url: str
    ) -> list[Planned]:
        """Return what becomes of every object, in order; without `dry_run` it has been done.

        `base_url` begins the URLs of imported webhooks. Raises BadRequest for more than is
        taken at once.
        """
        need(who, Right.ADMIN)
        assumed, given = _read(asked.assumed), _read(asked.lists)
        if len(assumed) + len(given) > OBJECTS_MAX:
            raise BadRequest(
                f"{len(assumed) + len(given)} objects are more than {OBJECTS_MAX}; ask in pieces"
            )
        if assumed and not asked.dry_run:
            raise BadRequest("assumed: only a dry run may assume anything")
        judge = await self._heard([*assumed, *given])

        def work(conn: Connection) -> list[Planned]:
            present = _present(conn, [item for _, item in (*assumed, *given)])
            planner = Planner(present, judge, now_us=self._context.now(), project=asked.project)
            for kind, item in assumed:
                planner.plan(kind, item)
            found = [planner.plan(kind, item) for kind, item in given]
            if not asked.dry_run:
                self._write(conn, who, found, base_url)
            return found

        if asked.dry_run:
            return await self._context.ctx.store.read(work, timeout_s=TIMEOUT_S)
        found = await self._context.ctx.store.write(work, timeout_s=TIMEOUT_S)
        self._context.changed()
        return found

    async def _heard(self, items: Sequence[tuple[Kind, Item | Unreadable]]) -> Installed:
        judge = Installed(self._context)
        for _, item in items:
            if isinstance(item, ProfileItem):
                judge.hear_profile(item)
            elif isinstance(item, PolicyItem):
                await asyncio.to_thread(judge.hear_policy, item)
        return judge

    def _write(
        self, conn: Connection, who: Principal, found: Sequence[Planned], base_url: str
    ) -> None:
        new = [p for p in found if p.outcome is Outcome.CREATE]
        for planned in new:
            row = dict(planned.row)
            if planned.kind is Kind.RECEIVER:
                row["channel"] = {"alarm_url": base_url}
                receivers.add(conn, self._context.ctx.receivers.keys, row)
            else:
                catalog.add(conn, ROWS[planned.kind], row)
            self._event(conn, who, planned)
        for cluster_id in _clusters_of(new, Kind.NODE):
            catalog.count_on(conn, cluster_id)
        for cluster_id in _clusters_of(new, Kind.BINDING):
            # Without a policy the members' grace was over at once.
            catalog.begin_grace(conn, cluster_id, self._context.now())

    def _event(self, conn: Connection, who: Principal, planned: Planned) -> None:
        row, kind = planned.row, planned.kind
        otype, action = EVENTS[kind]
        oid = str(row["cluster_id"]) if kind is Kind.BINDING else planned.id
        events.append(
            conn,
            events.Subject(
                otype=otype,
                oid=masked(oid) if kind is Kind.RECEIVER else oid,
                oname=planned.name,
                cluster_id=oid if otype == "CLUSTER" else str(row.get("cluster_id") or ""),
                node_id=oid if kind is Kind.NODE else None,
                project=str(row["project"] if "project" in row else _project_of(conn, oid)),
                user=who.user,
                domain=who.domain,
            ),
            at_us=self._context.now(),
            action=action,
            status="end",
            reason=f"imported by {who.user}",
            data={"by": who.user},
        )


def _read(lists: Lists) -> list[tuple[Kind, Item | Unreadable]]:
    """Return every object, each after what it refers to."""
    return [(Kind(name), read(Kind(name), row)) for name in ORDER for row in lists.get(name, ())]


def _present(conn: Connection, items: Sequence[Item | Unreadable]) -> Present:
    """Return what is here of everything that the items are or name."""
    readable = [item for item in items if not isinstance(item, Unreadable)]
    wanted = sorted(ids(readable))
    rows: dict[tuple[Kind, str], Row] = {}
    for kind, stored in ROWS.items():
        # Receivers stand under a digest of their ids, or under these themselves if they are old.
        hidden = {stored_id(w): w for w in wanted} if kind is Kind.RECEIVER else {}
        for row in catalog.where_in(conn, stored, "id", [*wanted, *hidden]):
            rows[kind, hidden.get(str(row["id"]), str(row["id"]))] = row
    # The profile of a cluster that is here says which members fit.
    more = {str(row["profile_id"]) for (k, _), row in rows.items() if k is Kind.CLUSTER}
    for row in catalog.where_in(conn, ProfileRow, "id", sorted(more)):
        rows[Kind.PROFILE, str(row["id"])] = row
    here = sorted(ident for kind, ident in rows if kind is Kind.CLUSTER)
    bound = {
        (str(row["cluster_id"]), str(row["policy_id"])): row
        for row in catalog.where_in(conn, BindingRow, "cluster_id", here)
    }
    physical = sorted({str(getattr(item, "physical_id", "")) for item in readable} - {""})
    holders: dict[str, tuple[str, ...]] = {}
    for row in catalog.where_in(conn, NodeRow, "physical_id", physical):
        key = str(row["physical_id"])
        holders[key] = (*holders.get(key, ()), str(row["id"]))
    return Present(rows=rows, holders=holders, bound=bound)


def _project_of(conn: Connection, cluster_id: str) -> str:
    """Return the project of a cluster: a binding has none of its own."""
    (row,) = catalog.where_in(conn, ClusterRow, "id", [cluster_id])
    return str(row["project"])


def _clusters_of(new: Sequence[Planned], kind: Kind) -> list[str]:
    """Return the clusters of new objects of a kind."""
    return sorted({str(p.row["cluster_id"]) for p in new if p.kind is kind and p.row["cluster_id"]})
