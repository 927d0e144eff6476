"""Servers become nodes of the private database, and cease to be: rows are all that is written.

The cloud is told nothing of it, for a watch has no means to tell it anything. So a server's node is
known by an id that follows from the server's own, and whoever begins again finds the same nodes.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from yaffle.cli.dry_run.grouping import Group, Rule, clean, group_of
from yaffle.engine.commands import Import
from yaffle.engine.commands.adopt import node_id_of
from yaffle.engine.incidents import lifecycle
from yaffle.model.authz import LOCAL
from yaffle.model.ids import ClusterId
from yaffle.model.incident import IncidentState
from yaffle.store import catalog, incidents

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.commands import Commands
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.ids import NodeId
    from yaffle.model.operations import Present
    from yaffle.policy import ParsedPolicy
    from yaffle.store.rows import NodeRow

CHUNK: Final = 400
"""Groups, or nodes, of one transaction: a thousand would hold up what the engine writes."""
POLICY: Final = "watch"
SPEC: Final = {"flavor": "as-it-is", "image": "as-it-is", "networks": "none"}
"""What a server is made of matters to nobody who never makes one."""


def ident_of(*words: str) -> str:
    """Return an id that follows from the words, in the form of a random one."""
    digest = hashlib.sha256("\0".join(words).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A server as a node."""

    node_id: NodeId
    cluster_id: ClusterId
    name: str
    server: Present


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The difference that a list of servers makes to what is watched."""

    clusters: Mapping[ClusterId, Group] = field(default_factory=dict)
    """All that are wanted."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Servers of each group, by its name."""
    new: Sequence[Wanted] = ()
    moved: Sequence[Wanted] = ()
    """In another group than before, or under another name."""
    missing: Sequence[NodeRow] = ()
    """Nodes whose server is not in the list: that alone says nothing."""
    claimed: Sequence[Present] = ()
    """Servers that are some other Yaffle's nodes, or a Senlin's: left to that."""
    taken_over: Sequence[NodeRow] = ()
    """Nodes of ours whose servers are claimed by now."""


def change(
    kind: str,
    rule: Rule,
    servers: Iterable[Present],
    projects: Mapping[str, str],
    known: Mapping[NodeId, NodeRow],
) -> Change:
    """Compare the servers that there are with the nodes that are known."""
    clusters: dict[ClusterId, Group] = {}
    sizes: Counter[str] = Counter()
    new: list[Wanted] = []
    moved: list[Wanted] = []
    claimed: list[Present] = []
    taken_over: list[NodeRow] = []
    seen: set[NodeId] = set()
    for server in servers:
        ident = node_id_of(kind, server.physical_id)
        seen.add(ident)
        if server.owner:
            claimed.append(server)
            taken_over += [known[ident]] if ident in known else []
            continue
        group = group_of(rule, server, projects)
        cluster_id = ClusterId(ident_of("group", group.key))
        clusters[cluster_id] = group
        sizes[group.name] += 1
        name = clean(server.name) if server.name.strip() else server.physical_id
        one = Wanted(node_id=ident, cluster_id=cluster_id, name=name, server=server)
        before = known.get(ident)
        if before is None:
            new.append(one)
        elif (before.cluster_id, before.name) != (cluster_id, name):
            moved.append(one)
    missing = [row for ident, row in sorted(known.items()) if ident not in seen]
    return Change(
        clusters=clusters,
        sizes=dict(sorted(sizes.items())),
        new=new,
        moved=moved,
        missing=missing,
        claimed=claimed,
        taken_over=taken_over,
    )


class Roll:
    """Writes who is watched."""

    def __init__(self, ctx: EngineContext, commands: Commands, kind: str) -> None:
        self._ctx = ctx
        self._commands = commands
        self._kind = kind
        self._profile = ident_of("profile", kind)
        self._policy = ident_of("policy")

    async def begin(self, policy: ParsedPolicy) -> None:
        """Write profile and policy; a policy that is another one than last time takes its place."""
        owner = {"project": "", "user": LOCAL.user, "domain": ""}
        properties = {"type": self._kind.rpartition("-")[0], "version": "1.0", "properties": SPEC}
        lists = {
            "profiles": [
                {"id": self._profile, "name": POLICY, "spec": properties, "type": self._kind}
            ],
            "policies": [{"id": self._policy, "name": POLICY, "spec": policy.document}],
        }
        await self._import({k: [{**row, **owner} for row in rows] for k, rows in lists.items()})
        here = await self._ctx.store.read(lambda c: catalog.find_policy(c, self._policy))
        if dict(here.spec) != policy.document:
            await self._commands.update_policy(self._policy, policy, source="", by=LOCAL)

    async def known(self) -> Mapping[NodeId, NodeRow]:
        """Return the nodes that are watched."""
        rows = await self._ctx.store.read(catalog.nodes_of)
        return {row.id: row for row in rows}

    async def take_in(self, change: Change) -> None:
        """Write what is new and what has moved."""
        used = {one.cluster_id for one in (*change.new, *change.moved)}
        groups = [(i, g) for i, g in change.clusters.items() if i in used]
        for first in range(0, len(groups), CHUNK):
            await self._import(self._clusters(dict(groups[first : first + CHUNK])))
        for first in range(0, len(change.new), CHUNK):
            some = change.new[first : first + CHUNK]
            await self._import({"nodes": [self._node(one, change.clusters) for one in some]})
        if change.moved:
            await self._ctx.store.write(lambda conn: self._move(conn, change.moved))
        if change.new or change.moved:
            await self._ctx.store.write(self._size)
            self._ctx.signals.changed()

    async def let_go(self, row: NodeRow, why: str) -> None:
        """Watch a node no more; its story stays."""

        def work(conn: Connection) -> None:
            now_us = self._ctx.clock.now_us()
            incident = incidents.open_of(conn, row.id)
            if incident is not None:
                ended = IncidentState.SUPERSEDED
                lifecycle.transition(
                    self._ctx, conn, row, incident, ended, reason=why, now_us=now_us
                )
            catalog.remove_node(conn, row.id)
            self._size(conn)

        await self._ctx.store.write(work)
        self._ctx.signals.changed()

    # --- rows ----------------------------------------------------------------------------------

    def _clusters(
        self, groups: Mapping[ClusterId, Group]
    ) -> Mapping[str, Sequence[dict[str, object]]]:
        return {
            "clusters": [
                {
                    "id": ident,
                    "name": group.name,
                    "profile_id": self._profile,
                    "project": group.project,
                    "status": "ACTIVE",
                }
                for ident, group in groups.items()
            ],
            "cluster_policies": [
                {
                    "id": ident_of("binding", ident),
                    "cluster_id": ident,
                    "policy_id": self._policy,
                    "enabled": True,
                }
                for ident in groups
            ],
        }

    def _node(self, one: Wanted, groups: Mapping[ClusterId, Group]) -> dict[str, object]:
        return {
            "id": one.node_id,
            "name": one.name,
            "cluster_id": one.cluster_id,
            "profile_id": self._profile,
            "physical_id": one.server.physical_id,
            "project": groups[one.cluster_id].project,
            "status": "ACTIVE",
            "index": 0,
        }

    async def _import(self, lists: Mapping[str, Sequence[Mapping[str, object]]]) -> None:
        await self._commands.import_objects(LOCAL, Import(lists=lists, dry_run=False), base_url="")

    def _move(self, conn: Connection, moved: Sequence[Wanted]) -> None:
        now_us = self._ctx.clock.now_us()
        for one in moved:
            values = {"cluster_id": one.cluster_id, "name": one.name}
            catalog.set_node(conn, one.node_id, now_us, **values)

    def _size(self, conn: Connection) -> None:
        """Let each group be as large as it is; one without members is none."""
        now_us = self._ctx.clock.now_us()
        sizes = Counter(row.cluster_id for row in catalog.nodes_of(conn))
        for cluster in catalog.all_clusters(conn):
            size = sizes[cluster.id]
            if not size:
                catalog.remove_cluster(conn, cluster.id)
            elif size != cluster.desired_capacity:
                catalog.set_cluster(conn, cluster.id, now_us, desired_capacity=size)
