"""Turns what the engine has decided into lines, each once, whatever ends between two of them.

What it tells is read from where the engine wrote it; only the cure, which the engine adds when it
begins to act and a watch never does, is asked for by the engine's own functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from yaffle.cli import durations
from yaffle.cli.dry_run import messages, report_store
from yaffle.cli.dry_run.messages import Failing, Kind, Line
from yaffle.cli.dry_run.report_store import About, Told
from yaffle.core.health import diagnosis
from yaffle.engine.action_inputs.policy_snapshot import PolicySnapshot
from yaffle.engine.detection.cluster_snapshot import in_place_names, policy_of
from yaffle.engine.steps import reversal
from yaffle.errors import StoreUnavailable
from yaffle.model.health import Health
from yaffle.model.ids import ClusterId, NodeId
from yaffle.model.incident import HoldReason, IncidentState
from yaffle.store import catalog
from yaffle.store.tables import incidents

if TYPE_CHECKING:
    from sqlalchemy import Connection, RowMapping

    from yaffle.core.health.verdict import NodeMemory
    from yaffle.engine.engine import Engine
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.policy import Recovery
    from yaffle.store.rows import NodeRow

SILENT = frozenset({HoldReason.RESETTLING, HoldReason.NODE_BUSY})
"""Reasons that pass by themselves within a few looks: they say nothing of the server."""
OWN_WILL = "EV-OWN-WILL"
GONE = frozenset({"gone", "DELETED"})
"""The backend's words for what is there no more: who takes servers off the list tells why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Somebody wanted a node to be down."""

    node_id: NodeId
    word: str
    """The backend's."""
    why: str


Say = Callable[[Sequence[tuple[Line, int]]], None]
"""Takes lines and their times."""
Found = tuple[Line, int, About]


class Teller:
    """Tells what is new, each time it is asked to."""

    def __init__(self, ctx: EngineContext, engine: Engine, told: Told, say: Say) -> None:
        self._ctx = ctx
        self._engine = engine
        self._told = told
        self._say = say
        self._failed: Mapping[NodeId, NodeMemory] = {}

    async def turn(self) -> None:
        """Tell what has happened since the last turn."""
        wishes = self._wishes()
        watches = self._engine.watches.values()
        memories = self._failed = as_failed((w.memories for w in watches), self._failed)
        told = self._told

        def anything_new(conn: Connection) -> bool:
            return bool(
                report_store.decided(conn, told.decision) or report_store.ended(conn, told.event)
            )

        # Most turns find nothing, and need not write.
        if not wishes and not await self._ctx.store.read(anything_new):
            return
        before = told.copied()
        try:
            found = await self._ctx.store.write(lambda conn: self._write(conn, wishes, memories))
        except StoreUnavailable:
            # Nothing was written down, so it is told another time.
            self._told = before
            raise
        self._say([(line, at_us) for line, at_us, _ in found])

    def _write(
        self, conn: Connection, wishes: Sequence[Wish], memories: Mapping[NodeId, NodeMemory]
    ) -> Sequence[Found]:
        """Write down what there is to tell; it is told once that is certain."""
        found: list[Found] = []
        for row in report_store.decided(conn, self._told.decision):
            self._told.decision = max(self._told.decision, row["seq"])
            found += self._decided(conn, row, memories)
        for row in report_store.ended(conn, self._told.event):
            self._told.event = max(self._told.event, row["seq"])
            found += self._ended(conn, row)
        for wish in wishes:
            found += self._wish(conn, wish)
        for line, at_us, about in found:
            report_store.keep(conn, line, at_us, about)
        return found

    # --- decisions -----------------------------------------------------------------------------

    def _decided(
        self, conn: Connection, row: RowMapping, memories: Mapping[NodeId, NodeMemory]
    ) -> Sequence[Found]:
        node = catalog.node(conn, NodeId(row["node_id"]))
        if row["kind"] != "hold" or node is None or row["incident_id"] is None:
            return ()
        reason = HoldReason(row["reason"])
        word = Kind.WOULD.value if reason is HoldReason.OBSERVE_MODE else reason.value
        key = (row["incident_id"], word)
        if reason in SILENT or key in self._told.reasons:
            return ()
        self._told.reasons.add(key)
        failing = self._failing(conn, node, row)
        if reason is HoldReason.OBSERVE_MODE:
            line = messages.would(failing, self._recovery(conn, node, memories), row["at_us"])
        else:
            line = messages.held(failing, reason, row["numbers"], row["at_us"])
        return [self._about(line, row["at_us"], node, row["incident_id"], decision=row["seq"])]

    def _failing(self, conn: Connection, node: NodeRow, row: RowMapping) -> Failing:
        query = incidents.select().where(incidents.c.id == row["incident_id"])
        incident = conn.execute(query).mappings().one_or_none()
        inputs = row["inputs"] if isinstance(row["inputs"], dict) else {}
        return Failing(
            node=node.name,
            cluster=self._cluster(conn, node),
            word=node.backend_status,
            looks=messages.looks_of(inputs),
            since_us=None if incident is None else incident["first_fail_us"],
            problem=str(inputs.get("problem", "")),
        )

    def _cluster(self, conn: Connection, node: NodeRow) -> str:
        found = catalog.cluster(conn, node.cluster_id) if node.cluster_id else None
        return found.name if found else ""

    def _recovery(
        self, conn: Connection, node: NodeRow, memories: Mapping[NodeId, NodeMemory]
    ) -> Recovery:
        """Return the recovery that the engine would have begun with, the cheapest cure first."""
        policy, _ = policy_of(self._ctx, conn, ClusterId(node.cluster_id or ""))
        memory = memories.get(node.id)
        asked = {} if memory is None else reversal.of(memory, node)
        profile = catalog.profile(conn, node.profile_id)
        driver = self._ctx.drivers.profiles.get(profile.type)
        cure = reversal.cure(driver, asked)
        return PolicySnapshot.of(policy, {}, in_place=in_place_names(self._ctx), cure=cure).recovery

    # --- ends ----------------------------------------------------------------------------------

    def _ended(self, conn: Connection, row: RowMapping) -> Sequence[Found]:
        node = catalog.node(conn, NodeId(row["node_id"] or ""))
        told = any(ident == row["incident_id"] for ident, _ in self._told.reasons)
        self._told.reasons = {k for k in self._told.reasons if k[0] != row["incident_id"]}
        if node is None or not told:
            return ()
        data = row["data"] if isinstance(row["data"], dict) else {}
        opened_us = data.get("opened_us")
        lasted_s = (row["at_us"] - opened_us) / 1e6 if isinstance(opened_us, int) else 0.0
        left = row["status"] == IncidentState.SUPERSEDED
        how = "is judged no more" if left else "is over it"
        line = Line(
            kind=Kind.LEFT if left else Kind.OVER,
            text=f"{node.name} ({self._cluster(conn, node)}) {how} after"
            f" {durations.shown(lasted_s)}{'' if left else ', without Yaffle'}: {row['reason']}",
            data={"group": self._cluster(conn, node), "lasted_s": round(lasted_s, 3)},
        )
        return [self._about(line, row["at_us"], node, row["incident_id"], event=row["seq"])]

    # --- wishes --------------------------------------------------------------------------------

    def _wishes(self) -> Sequence[Wish]:
        """Return who is down because somebody wanted that, as far as it is new."""
        found: list[Wish] = []
        known = self._told.wishes
        for watch in self._engine.watches.values():
            for ident, memory in watch.memories.items():
                wish = wish_of(memory)
                if wish is None:
                    if ident in known and _is_up(memory):
                        del known[ident]
                elif known.get(ident) != wish.word:
                    found.append(wish)
        return found

    def _wish(self, conn: Connection, wish: Wish) -> Sequence[Found]:
        self._told.wishes[wish.node_id] = wish.word
        node = catalog.node(conn, wish.node_id)
        if node is None:
            return ()
        line = Line(
            kind=Kind.WISH,
            text=f"{node.name} ({self._cluster(conn, node)}) is {wish.word} because somebody asked"
            " for that: no failure, Yaffle would have left it alone",
            more=(("because", wish.why),),
            data={"group": self._cluster(conn, node), "wish": wish.word},
        )
        return [self._about(line, self._ctx.clock.now_us(), node, None)]

    def _about(
        self, line: Line, at_us: int, node: NodeRow, incident_id: str | None, **places: int
    ) -> Found:
        about = About(
            node_id=node.id,
            node=node.name,
            cluster_id=node.cluster_id or "",
            incident_id=incident_id,
            project=node.project,
        )
        facts = {"server": node.physical_id, "node": node.name, **places}
        return replace(line, data={**facts, **line.data}), at_us, about


def as_failed(
    watched: Iterable[Mapping[NodeId, NodeMemory]], before: Mapping[NodeId, NodeMemory]
) -> Mapping[NodeId, NodeMemory]:
    """Return those that are not well, each as it was when a look at it last failed.

    Between a decision and its line a look may come to nothing, or the engine may have been blind:
    then nothing is remembered that would say what is wrong, hence what cures it.
    """
    return {
        ident: memory if diagnosis.failing(memory) else before.get(ident, memory)
        for memories in watched
        for ident, memory in memories.items()
        if memory.health is not Health.HEALTHY
    }


def wish_of(memory: NodeMemory) -> Wish | None:
    """Return why the node is down, where somebody wanted that; one that was deleted is let go of."""
    for track in memory.tracks.values():
        last = track.last
        if last is not None and last.code == OWN_WILL and last.backend_status not in GONE:
            word = last.backend_status or "down"
            return Wish(node_id=memory.node_id, word=word, why=last.detail)
    return None


def _is_up(memory: NodeMemory) -> bool:
    lasts = [track.last for track in memory.tracks.values() if track.last is not None]
    return bool(lasts) and all(last.code in {"ST-UP", "HV-UP", "EV-QUIET"} for last in lasts)
