"""The safety rules, asked at the very moment: at every call to a driver and after every write."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from tests.sim.decision_replay import Recheck
from tests.sim.outages import Outages

from yaffle.core.planning.pauses import covering
from yaffle.model.incident import PauseKind
from yaffle.store import catalog, disk_images, late_resources, orphans, pauses
from yaffle.store.tables import actions, budgets, decisions, proofs, steps, watches

if TYPE_CHECKING:
    from tests.sim.stage import Life, Stage

    from yaffle.model.operations import Target


class Violation(AssertionError):
    """A promise was broken."""


def came_to_something(step: Any) -> bool:
    """Whether a step is known to have destroyed or made something, or may have and was answered."""
    if step.result in {"halted", "superseded", "unclear"} or step.data.get("withheld"):
        return step.submitted_us is not None and step.result in {"halted", "superseded"}
    if step.stage == "fence":
        return bool(step.result == "proved")
    known = not step.data.get("refused")
    return step.stage in {"delete", "create", "act"} and known


class Audit:
    """Remembers which recoveries it has seen admitted, and refuses the ones that should not be."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._admitted: set[str] = set()
        self._counted: dict[str, float] = {}
        self.admissions: dict[str, list[float]] = defaultdict(list)
        """Per budget key, when recoveries were admitted (s, as a bucket sees time)."""
        self.submits: dict[str, list[str]] = defaultdict(list)
        """Operation id → the kinds handed to drivers under it."""
        self.broken: list[str] = []
        self.recheck = Recheck(stage.store.engine, self.fail)
        self._outages = Outages(stage.store.engine, self.fail)

    def fail(self, text: str) -> None:
        """Broken promises are collected too: an engine must not be able to swallow them."""
        self.broken.append(text)
        raise Violation(text)

    # --- at every call -------------------------------------------------------------------------

    def call(self, life: Life, kind: str, operation_id: str, target: Target) -> None:
        self.submits[operation_id].append(kind)
        with self._stage.store.engine.connect() as conn, conn.begin():
            step = conn.execute(
                select(steps).where(steps.c.operation_id == operation_id)
            ).one_or_none()
            if step is None:
                self._sweeping(conn, kind, operation_id, target)
                return
            action = conn.execute(select(actions).where(actions.c.id == step.action_id)).one()
            self._rightful(life, kind, step, action, target)
            if kind == "CREATE" and action.action in {"NODE_RECOVER", "NODE_UPDATE"}:
                self._proved(conn, step, target)
            if action.action == "NODE_UPDATE":
                self._aimed(conn, kind, action, target)

    def _sweeping(self, conn: Any, kind: str, operation_id: str, target: Target) -> None:
        rows = [(t.node_id, t.physical_id) for _, t in orphans.due(conn, 2**62, 1000)]
        rows += [(d.target.node_id, "") for d in late_resources.due(conn, 2**62, 1000)]
        imaged = [due.target.node_id for due in disk_images.due(conn, 2**63 - 1, 1000)]
        if kind == "DISCARD" and target.node_id in imaged:
            return
        if kind != "DELETE" or (target.node_id, target.physical_id) not in rows:
            self.fail(f"{kind} {operation_id} on {target.name} without an intent in the journal")

    def _rightful(self, life: Life, kind: str, step: Any, action: Any, target: Target) -> None:
        session = life.engine.session
        if step.phase == "ended":
            self.fail(f"{kind} on {target.name} after its step had ended")
        if session is None or (action.owner, action.epoch) != (session.me, session.epoch):
            self.fail(f"{kind} on {target.name} by an engine that does not own the action")
        now_us = self._stage.clock.now_us()
        if self._stage.alone:
            # A clock set forward ends the lease in the rows, but there is nobody to take it.
            now_us -= int(self._stage.clock.forward_s * 1e6)
        if action.status != "RUNNING" or action.lease_us <= now_us:
            self.fail(f"{kind} on {target.name} without a lease ({action.status})")

    def _aimed(self, conn: Any, kind: str, action: Any, target: Target) -> None:
        """An update deletes under the properties that the copy has, and makes one with the new."""
        new = catalog.profile(conn, action.inputs["new_profile_id"])
        node = catalog.node(conn, target.node_id)
        if kind != "DELETE" and dict(target.spec) != dict(new.spec):
            self.fail(f"{kind} of {target.name} with properties that are not the new profile's")
        if kind == "DELETE" and node.profile_id == new.id:
            self.fail(f"{target.name} names its new profile while the old copy is deleted")
        if kind == "DELETE" and dict(target.spec) == dict(new.spec):
            self.fail(f"DELETE of {target.name} with properties that its copy does not have")

    def _proved(self, conn: Any, step: Any, target: Target) -> None:
        before = conn.execute(
            select(steps.c.stage, steps.c.result).where(
                steps.c.action_id == step.action_id,
                steps.c.rung == step.rung,
                steps.c.phase == "ended",
            )
        ).all()
        made_sure = [r for s, r in before if s in {"fence", "delete"}]
        if not made_sure or not set(made_sure) & {"proved", "waived"}:
            self.fail(f"CREATE of {target.name} without proof or waiver: {before}")
        if not conn.execute(select(proofs.c.id).where(proofs.c.action_id == step.action_id)).all():
            self.fail(f"CREATE of {target.name} without a proof on record")

    # --- after every write -----------------------------------------------------------------------

    def written(self) -> None:
        touched = set(self._stage.base.touched)
        self._stage.base.touched.clear()
        if "decisions" in touched:
            self.recheck()
        if "incidents" in touched:
            self._outages()
        if "actions" in touched:
            self._admissions()

    def _admissions(self) -> None:
        with self._stage.store.engine.connect() as conn, conn.begin():
            rows = conn.execute(
                select(actions).where(
                    actions.c.action == "NODE_RECOVER", actions.c.status.in_(("READY", "RUNNING"))
                )
            ).all()
            self._give_back(conn)
            fresh = [r for r in rows if r.id not in self._admitted]
            for row in fresh:
                self._admitted.add(row.id)
                self._admission(conn, row)
            if fresh:
                self._caps(rows)

    def _admission(self, conn: Any, action: Any) -> None:
        stage = self._stage
        now_us = stage.clock.now_us()
        node = catalog.node(conn, action.node_id)
        for kind in PauseKind:
            found = covering(
                pauses.in_force(conn, now_us), kind, action.node_id, action.cluster_id, now_us
            )
            if found:
                self.fail(
                    f"recovery of {node.name} admitted in spite of {kind} ({found[0].reason})"
                )
        if action.cluster_id is None:
            # Nobody plans for a node alone: the request was admitted as it was asked.
            self._count(action, ("all",))
            return
        decision = conn.execute(
            select(decisions)
            .where(decisions.c.node_id == action.node_id)
            .order_by(decisions.c.seq.desc())
            .limit(1)
        ).one()
        if decision.kind != "recover":
            self.fail(f"{node.name}: admitted, but the last decision stored is {decision.kind}")
        asked = str(action.status_reason).startswith("requested by")
        if not (decision.inputs["settled"] or node.mark_reason or asked):
            self.fail(f"recovery of {node.name} admitted on an unsettled verdict")
        if stage.blind_since_s is not None and not node.mark_reason:
            blind_s = stage.clock.monotonic_s() - stage.blind_since_s
            if blind_s > stage.blind_bound_s:
                self.fail(f"recovery of {node.name} admitted after {blind_s:.1f} s of blindness")
        self._count(action, ("all", action.cluster_id))

    def _count(self, action: Any, keys: tuple[str, ...]) -> None:
        clock = self._stage.clock
        at_s = clock.monotonic_s() + clock.forward_s
        self._counted[action.id] = at_s
        for key in keys:
            self.admissions[key].append(at_s)
            self._bucket(key)

    def _give_back(self, conn: Any) -> None:
        """Recoveries that destroyed and made nothing, as far as is known, have their tokens returned."""
        if not self._counted:
            return
        ended = conn.execute(
            select(actions.c.id, actions.c.cluster_id).where(
                actions.c.id.in_(self._counted), actions.c.end_us.is_not(None)
            )
        ).all()
        for ident, cluster_id in ended:
            at_s = self._counted.pop(ident)
            past = conn.execute(select(steps).where(steps.c.action_id == ident))
            if not any(map(came_to_something, past.all())):
                for key in ("all", cluster_id) if cluster_id else ("all",):
                    self.admissions[key].remove(at_s)

    def _bucket(self, key: str) -> None:
        limit = self._stage.limit_of(key)
        times = self.admissions[key]
        for first in range(max(0, len(times) - 40), len(times)):
            count = len(times) - first
            allowed = limit.burst + (times[-1] - times[first]) * limit.per_hour / 3600
            if count > allowed + 1e-6:
                self.fail(f"budget {key}: {count} recoveries where {allowed:.2f} are allowed")

    def _caps(self, rows: list[Any]) -> None:
        by_cluster: dict[str, int] = defaultdict(int)
        for row in rows:
            by_cluster[row.cluster_id] += 1
        for cluster_id, count in by_cluster.items():
            if cluster_id and count > self._stage.max_in_flight:
                self.fail(f"{count} recoveries in flight in cluster {cluster_id}")
        if len(rows) > self._stage.limit_of("all").max_in_flight:
            self.fail(f"{len(rows)} recoveries in flight at once")

    # --- at any time -----------------------------------------------------------------------------

    def copies(self) -> None:
        """Never two living copies, but by a recorded waiver."""
        world = self._stage.world
        world.settle()
        for older, newer in world.overlaps:
            if not self._waived(newer.made_by):
                self.fail(f"two copies alive: {older} and {newer}")

    def _waived(self, operation_id: str) -> bool:
        with self._stage.store.engine.connect() as conn, conn.begin():
            waived = select(proofs.c.id).where(
                proofs.c.action_id == steps.c.action_id, proofs.c.waived
            )
            query = select(steps.c.seq).where(steps.c.operation_id == operation_id, waived.exists())
            return bool(conn.execute(query).all())


__all__ = ["Audit", "Violation", "budgets", "watches"]
