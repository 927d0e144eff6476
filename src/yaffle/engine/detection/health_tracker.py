"""The health of every node of one cluster in memory, and which nodes are due when.

A hundred thousand nodes answer all the time and nearly always the same. So nothing here goes
through all of them because a second has passed: observations touch the node they are about, time
touches those for which it can change something (`core.health.check_deadlines`), and what is stored is
compared where a belief or a row has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from yaffle.core.health.check_deadlines import next_change_us
from yaffle.core.health.node_lifecycle import OUTLIVED, WATCHED
from yaffle.core.health.verdict import (
    NodeMemory,
    conclude,
    observe,
    resettle,
    restart,
    set_mark,
    verified,
)
from yaffle.engine.action_inputs.target_mapping import host_of, mark_of, memory_of
from yaffle.engine.detection.health_persistence import Saved, problem_of, verified_since
from yaffle.model.health import Health, NodeStatus, Observation

if TYPE_CHECKING:
    from yaffle.model.ids import ModeKey, NodeId
    from yaffle.model.policy import Detection
    from yaffle.store.rows import NodeRow


class HealthTracker:
    """The health states of one cluster's nodes, with indexes: unsaved, due, by host."""

    def __init__(self) -> None:
        self.memories: dict[NodeId, NodeMemory] = {}
        self.seen: set[NodeId] = set()
        self.sick: set[NodeId] = set()
        """Those believed unhealthy."""
        self.counts: Counter[Health] = Counter()
        self.hosts: dict[str, set[NodeId]] = {}
        """The nodes on each machine, where they name one."""
        self._host_of: dict[NodeId, str] = {}
        self._saved: dict[NodeId, Saved] = {}
        self._graces: dict[NodeId, int | None] = {}
        """When the grace of each began, as its row said last."""
        self._unsaved: set[NodeId] = set()
        """All whose belief may differ from what is stored, and perhaps some whose does not."""
        self._outlived: set[NodeId] = set()
        """Those whose row bears a status that a healthy node without an action sheds."""
        self._strayed: dict[NodeId, ModeKey] = {}
        """Those of which the backend has another copy than the one in their row, and who said so."""
        self._behind: set[NodeId] = set()
        """Nodes that began anew; what their row says is compared when they have been judged."""
        self._due: list[tuple[int, NodeId]] = []
        self._due_of: dict[NodeId, int] = {}
        """The earliest entry of each node in `_due`, which is never later than its next change."""
        self._aged_us: int | None = None

    # --- what comes in -------------------------------------------------------------------------

    def take(self, seen: Iterable[Observation], detection: Detection, now_us: int) -> bool:
        """Fold observations; return whether the planner might decide otherwise after them."""
        changed = False
        for one in seen:
            before = self.memories.get(one.node_id)
            if before is None:
                continue
            self.seen.add(one.node_id)
            self._note_copy(one)
            after = observe(before, one, detection, now_us)
            self._put(before, after)
            if _alike(before, after):
                if _at_rest(before, after, one):
                    continue
            else:
                changed = True
            self._unsaved.add(one.node_id)
            self._schedule(after, detection, now_us)
        return changed

    def _note_copy(self, one: Observation) -> None:
        if one.copy is not None:
            self._strayed[one.node_id] = one.mode
        elif self._strayed.get(one.node_id) == one.mode:
            # Of the others most know nothing of copies.
            del self._strayed[one.node_id]

    def resettle(self) -> None:
        """Begin all counts again; earlier observations count no more."""
        self.memories = {i: resettle(m) for i, m in self.memories.items()}
        self._look_at_all()

    def age(self, detection: Detection, now_us: int) -> bool:
        """Apply the time that has passed (staleness, grace); return whether a verdict changed."""
        if self._aged_us is not None and now_us < self._aged_us:
            self._look_at_all()  # the clock was set back: no moment that was worked out is true
        self._aged_us = now_us
        changed = False
        while self._due and self._due[0][0] <= now_us:
            due_us, ident = heappop(self._due)
            before = self.memories.get(ident)
            if before is None or self._due_of.get(ident) != due_us:
                continue
            del self._due_of[ident]
            if due_us:
                # Most were heard of meanwhile, and their moment has moved on.
                later_us = next_change_us(before, detection, due_us - 1)
                if later_us is None or later_us > now_us:
                    self._enter(ident, later_us)
                    continue
            after = conclude(before, detection, now_us)
            self._put(before, after)
            self._unsaved.add(ident)
            changed |= after.health is not before.health or after.settled != before.settled
            self._schedule(after, detection, now_us)
        return changed

    @property
    def due_us(self) -> int | None:
        """The next time at which `age` may change anything; None for never."""
        return self._due[0][0] if self._due else None

    # --- rows ----------------------------------------------------------------------------------

    def adopt(
        self,
        rows: Mapping[NodeId, NodeRow],
        changed: Iterable[NodeId],
        detection: Detection,
        now_us: int,
    ) -> bool:
        """Take over rows that users or executors changed: new nodes, graces, marks.

        `changed`: those of `rows` that may differ from the last time. Return whether the planner
        might decide otherwise.
        """
        differs = False
        for ident in {*changed, *self._behind}:
            row = rows.get(ident)
            if row is not None:
                differs |= self._adopt(row, detection, now_us)
        if len(rows) != len(self.memories):
            for ident in self.memories.keys() - rows.keys():
                self._forget(ident)
        return differs

    def _adopt(self, row: NodeRow, detection: Detection, now_us: int) -> bool:
        ident, changed = row.id, False
        before = self.memories.get(ident)
        if before is None:
            after = memory_of(row, detection, now_us)
            self._saved[ident] = Saved.of_row(row)
        elif row.grace_us is not None and row.grace_us != self._graces[ident]:
            after = restart(before, row.grace_us)
            changed = True
        else:
            after = before
        if verified_since(row, after, now_us):
            after = verified(after, row.healthy_us or now_us)
            changed = True
        # What a person said of an unhealthy node, or a recovery left of it, stands in its row.
        changed |= before is not None and ident in self.sick
        self._behind.discard(ident)
        stands = replace(
            self._saved[ident],
            health=row.health,
            left=row.left_as_it_is,
            problem=problem_of(row),
        )
        if self._saved[ident] != stands:
            if after.health is Health.INITIALIZING:
                self._behind.add(ident)
            else:
                # A recovery's end wrote its own word: ours is written again if it differs.
                self._saved[ident] = stands
        if after.mark != mark_of(row):
            after = set_mark(after, mark_of(row), detection, now_us)
            changed = True
        self._graces[ident] = row.grace_us
        # One that is left as it is bears WARNING, and no other of these.
        outlived = row.status in OUTLIVED
        if row.left_as_it_is:
            outlived = row.status in WATCHED - {NodeStatus.WARNING}
        (self._outlived.add if outlived else self._outlived.discard)(ident)
        self._put(before, after)
        self._stands_on(ident, host_of(row))
        self._unsaved.add(ident)
        self._enter(ident, 0)
        return changed

    def unsaved(self, *, disturbed: bool) -> Mapping[NodeId, NodeMemory]:
        """Return the beliefs that differ from what is stored, or shed a status that outlived itself.

        And those of nodes whose copy is another than their row says.

        `disturbed`: an action of the cluster is under way, and the statuses are its own.
        """
        found = {
            i: m
            for i in self._unsaved
            if (m := self.memories.get(i)) is not None
            and Saved.of_memory(m, self._saved.get(i)) != self._saved.get(i)
        }
        self._unsaved = set(found)
        if not disturbed:
            due = self._outlived | self._strayed.keys()
            healthy = (i for i in due if self.memories[i].health is Health.HEALTHY)
            found |= {i: self.memories[i] for i in healthy}
        return found

    @property
    def is_unsaved(self) -> bool:
        """Whether anything may differ from what is stored."""
        return bool(self._unsaved or self._strayed)

    def stored(self, saved: Mapping[NodeId, Saved]) -> None:
        """Note what has been written."""
        self._saved.update(saved)
        # Where the row could not take it now, the next answer says it again.
        for ident in self._strayed.keys() & saved.keys():
            del self._strayed[ident]

    # --- indexes -------------------------------------------------------------------------------

    def _put(self, before: NodeMemory | None, after: NodeMemory) -> None:
        ident = after.node_id
        self.memories[ident] = after
        if before is not None and before.health is after.health:
            return
        if before is not None:
            self.counts[before.health] -= 1
        self.counts[after.health] += 1
        (self.sick.add if after.health is Health.UNHEALTHY else self.sick.discard)(ident)

    def on_host(self, name: str) -> Iterable[NodeMemory]:
        """Return the health states of the nodes on one host."""
        return (self.memories[i] for i in self.hosts.get(name, ()))

    def hosts_of(self, idents: Iterable[NodeId]) -> Iterable[str]:
        """Return the hosts of these nodes, each once and in a fixed order."""
        return sorted({self._host_of[i] for i in idents if i in self._host_of})

    def _stands_on(self, ident: NodeId, name: str) -> None:
        before = self._host_of.pop(ident, "")
        if before:
            self.hosts[before].discard(ident)
            if not self.hosts[before]:
                del self.hosts[before]
        if name:
            self._host_of[ident] = name
            self.hosts.setdefault(name, set()).add(ident)

    def _forget(self, ident: NodeId) -> None:
        self._stands_on(ident, "")
        self.counts[self.memories.pop(ident).health] -= 1
        for index in (self._saved, self._graces, self._due_of, self._strayed):
            index.pop(ident, None)
        for group in (
            self.seen,
            self.sick,
            self._unsaved,
            self._outlived,
            self._behind,
        ):
            group.discard(ident)

    def _schedule(self, memory: NodeMemory, detection: Detection, now_us: int) -> None:
        self._enter(memory.node_id, next_change_us(memory, detection, now_us))

    def _enter(self, ident: NodeId, due_us: int | None) -> None:
        known_us = self._due_of.get(ident)
        if due_us is None or (known_us is not None and known_us <= due_us):
            return
        self._due_of[ident] = due_us
        heappush(self._due, (due_us, ident))

    def _look_at_all(self) -> None:
        self._due = [(0, ident) for ident in self.memories]
        heapify(self._due)
        self._due_of = dict.fromkeys(self.memories, 0)


def _alike(before: NodeMemory, after: NodeMemory) -> bool:
    """Whether the planner sees no difference."""
    return (
        before.health is after.health
        and before.settled == after.settled
        and before.gray == after.gray
    )


def _at_rest(before: NodeMemory, after: NodeMemory, one: Observation) -> bool:
    """Whether an answer, of the only mode, left a healthy node as it was, to the last word of it.

    Then the next change by time has but moved on: it would be that no further answer comes.
    """
    if after.health is not Health.HEALTHY or after.grace_us is not None or len(after.tracks) > 1:
        return False
    known = before.tracks.get(one.mode)
    last = None if known is None else known.last
    return last is not None and (last.code, last.backend_status) == (one.code, one.backend_status)
