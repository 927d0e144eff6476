"""The safety rules: asked at every call to a driver, after every write, and once a second.

Nothing here asks the engine what it thinks. Rows are read past it, thresholds and budgets computed
again, looks were overheard at the detectors, and copies are counted in the world itself.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.sim.fleet import sight
from tests.sim.fleet.shapes import BUDGETS, SETTINGS

from yaffle.model.policy import HealthPolicy, RecoveryMode, WhenExceeded
from yaffle.testing.clock import BOOT_S, EPOCH_US

if TYPE_CHECKING:
    from tests.sim.fleet.fleet import Fleet, Life

    from yaffle.model.operations import Target

ADMITTED = (
    "select * from actions where action = 'NODE_RECOVER' and status in ('READY', 'RUNNING')"
    " order by created_us, id"
)
ACTS = ("fence", "delete", "create", "act")
MARGIN_S = 1.0
LEAVE_S = 7.0
"""How old the leave to act may be: whoever has it may have to wait for its lease to be renewed."""
SETTLED_S = 2 * SETTINGS.lease
"""Of nobody that was stopped since it can be said how old its leave is."""
LOST_TURNS = 12
"""Of fewer nobody can be sure: who knows nothing of them may have taken as many meanwhile."""
COVERED_WITHIN_S = SETTINGS.lease + 1.0


class Violation(AssertionError):
    """A promise was broken."""


class Referee:
    """Watches one world; the first broken rule ends it."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._base = fleet.base
        self.broken: list[str] = []
        self.admitted: set[str] = set()
        self.acts = 0
        """Calls that change something, for whoever wants to know how lively a world was."""
        self._counted: dict[str, float] = {}
        self._times: dict[str, list[float]] = defaultdict(list)
        """Per budget, when recoveries were admitted."""
        self._told: set[str] = set()
        """Operations that were handed to a driver."""
        self._overlaps = 0
        self._gaps: dict[str, float] = {}
        self.longest_gap_s = 0.0
        self.forgot_s: float | None = None
        self.has_to_be_noticed = False
        self._copy: tuple[float, bytes] | None = None

    def fail(self, text: str) -> None:
        """Broken promises are collected too: an engine must not be able to swallow them."""
        self.broken.append(text)
        self._fleet.note(f"!! {text}")
        raise Violation(text)

    @property
    def _now_us(self) -> int:
        """By the database's clock."""
        return self._base.clock.now_us()

    def _mono_s(self, at_us: int) -> float:
        return (at_us - EPOCH_US) / 1e6 - self._base.clock.stepped_s + BOOT_S

    # --- a database that forgets -----------------------------------------------------------------

    async def keep_a_copy(self, age_s: float) -> None:
        """Remember what is stored now, to be gone back to in a while."""
        self._copy = (self._fleet.now_s, self._base.save())
        await self._base.clock.sleep(age_s)

    def set_back(self) -> None:
        """Let the database be what it was then; what we counted by its rows is gone with them."""
        assert self._copy is not None
        copied_s, stored = self._copy
        self.forgot_s = self._fleet.now_s
        before = self._turn()
        self._base.restore(stored)
        self._fleet.ledger.set_back()
        lost = before - self._turn()
        self._fleet.note(
            f"   the database goes back {self.forgot_s - copied_s:.1f} s, {lost} turns"
        )
        # Where no engine runs nobody remembers: `yaffle db restored` is a person's word for that.
        living = list(self._fleet.living)
        knowing = bool(living) and all(n.wrote_s > copied_s for n in living)
        self.has_to_be_noticed = knowing and lost >= LOST_TURNS
        self._gaps.clear()
        self._times.clear()
        self._counted.clear()
        self.admitted = {row.id for row in self._base.rows(ADMITTED)}

    def _turn(self) -> int:
        return int(self._base.rows("select value from counters where name = 'turn'")[0].value)

    def noticed(self) -> bool:
        """Whether the stop of a database that went back is, or was, in force."""
        return bool(
            self._base.rows("select id from pauses where kind = 'stop' and owner = 'yaffle'")
        )

    def compare(self) -> None:
        """What a person does before letting go on: copies that no row speaks of are removed."""
        known = {(n.id, n.physical_id) for n in self._fleet.nodes()}
        known |= {(d.node_id, d.physical_id) for d in self._base.rows("select * from debris")}
        for ident in self._fleet.node_ids():
            for copy in self._fleet.world.alive(ident):
                if (ident, copy.physical_id) not in known:
                    copy.stopped_s = self._fleet.now_s

    # --- at every call ---------------------------------------------------------------------------

    def call(
        self, life: Life, kind: str, operation_id: str, target: Target, deadline_s: float
    ) -> None:
        """A driver is about to be told to do something, and may take so long for it."""
        self.acts += 1
        self._fleet.note(f"{life}: {kind} {target.name} {operation_id[:8]}")
        self.copies()
        rows = self._base.rows("select * from steps where operation_id = ?", operation_id)
        if not rows:
            self._without_step(life, kind, operation_id, target)
            return
        self._once(life, kind, operation_id, target)
        step = rows[0]
        (action,) = self._base.rows("select * from actions where id = ?", step.action_id)
        what = f"{kind} on {target.name} by {life}"
        session = life.engine.session
        if step.phase == "ended":
            self.fail(f"{what} after its step had ended")
        if session is None or (action.owner, action.epoch) != (session.me, session.epoch):
            self.fail(f"{what}, which does not own the action")
        if action.status != "RUNNING" or action.lease_us <= self._now_us:
            self.fail(f"{what} without a lease ({action.status})")
        left_s = (action.lease_us - self._now_us) / 1e6
        if self.forgot_s is None and left_s < deadline_s:
            self.fail(f"{what} may take {deadline_s:.1f} s, and its lease ends in {left_s:.1f} s")
        if action.action == "NODE_RECOVER":
            self._wanted(what, life, step, action)
        if kind == "CREATE" and action.action in {"NODE_RECOVER", "NODE_UPDATE"}:
            self._proved(what, step)

    def _once(self, life: Life, kind: str, operation_id: str, target: Target) -> None:
        """What a backend would do twice is told to it once, whoever goes on with it."""
        if not self._fleet.shape.forgetful or kind == "FENCE":
            return
        if operation_id in self._told and self.forgot_s is None:
            self.fail(f"{kind} {operation_id} on {target.name} is submitted again by {life}")
        self._told.add(operation_id)

    def _without_step(self, life: Life, kind: str, operation_id: str, target: Target) -> None:
        debris = self._base.rows(
            "select id from debris where node_id = ? and physical_id = ? and done_us is null",
            target.node_id,
            # Whatever bears the mark of a node that is gone.
            target.physical_id or "*",
        )
        if kind == "DELETE" and debris:
            return
        if self.forgot_s is not None and life.wrote_s <= self.forgot_s:
            return  # what it wrote before the call was there, and is gone
        self.fail(f"{kind} {operation_id} on {target.name} by {life} without an intent")

    def _wanted(self, what: str, life: Life, step: Any, action: Any) -> None:
        policy = self.policy(action.cluster_id)
        if policy.recovery.mode is RecoveryMode.OBSERVE and not _asked(action):
            self.fail(f"{what}: the policy only observes")
        if any(n.clock.wrong_s for n in self._fleet.lives):
            return
        since_us = step.intent_us - int(MARGIN_S * 1e6)
        if not self._fleet.stalled and self._fleet.now_s - life.upset_s > SETTLED_S:
            since_us = max(since_us, self._now_us - int(LEAVE_S * 1e6))
        for pause in self.pauses(life, action.node_id, action.cluster_id):
            if pause.starts_us < since_us:
                self.fail(f"{what}, begun under a {pause.kind} ({pause.reason})")

    def _proved(self, what: str, step: Any) -> None:
        before = self._base.rows(
            "select stage, result from steps where action_id = ? and rung = ? and phase = 'ended'",
            step.action_id,
            step.rung,
        )
        sure = {r.result for r in before if r.stage in {"fence", "delete"}}
        if not sure & {"proved", "waived"}:
            self.fail(f"{what} without proof or waiver: {sure}")
        proved = self._base.rows(
            "select seq from steps where action_id = ? and result = 'proved'", step.action_id
        )
        proofs = self._base.rows("select waived from proofs where action_id = ?", step.action_id)
        if not proofs or sum(not p.waived for p in proofs) < len(proved):
            self.fail(f"{what}: {len(proved)} steps are called proved, by {len(proofs)} proofs")

    # --- after every write -----------------------------------------------------------------------

    def written(self, life: Life | None, asked_s: float, *, late: bool) -> None:
        """That process has done its work in a transaction, which is about to be committed.

        `asked_s`: when it asked for it. `late`: it was told since that it did not come about.
        """
        self._fleet.ledger.judge(life)
        rows = self._base.rows(ADMITTED)
        self._give_back()
        fresh = [r for r in rows if r.id not in self.admitted]
        for row in fresh:
            self.admitted.add(row.id)
            if row.cluster_id is not None:
                self._admission(life, row, rows, asked_s, late=late)
        if fresh:
            self._caps(rows)

    def _admission(
        self, life: Life | None, action: Any, rows: Any, asked_s: float, *, late: bool
    ) -> None:
        (node,) = self._base.rows("select * from nodes where id = ?", action.node_id)
        holder = self._holder(action.cluster_id)
        what = f"recovery of {node.name} admitted by {holder or life or 'nobody'}"
        self._fleet.note(what)
        if holder is None or holder is not life:
            self.fail(f"{what} in a transaction of {life}: whose watch is it?")
            return
        for pause in self.pauses(holder, action.node_id, action.cluster_id):
            self.fail(f"{what} in spite of a {pause.kind} ({pause.reason})")
        decision = self._base.rows(
            "select * from decisions where node_id = ? order by seq desc limit 1", action.node_id
        )[0]
        if decision.kind != "recover":
            self.fail(f"{what}, but the last decision stored is {decision.kind}")
        self._counted[action.id] = self._fleet.now_s
        for key in ("all", action.cluster_id):
            self._times[key].append(self._fleet.now_s)
            self._bucket(key)
        if _asked(action):
            return
        policy = self.policy(action.cluster_id)
        if policy.recovery.mode is RecoveryMode.OBSERVE:
            self.fail(f"{what}: the policy only observes")
        self._storm(what, holder, action, policy, rows)
        if node.mark_reason is None and not late:
            self._seen(what, holder, action, policy, asked_s)

    def _holder(self, cluster_id: str) -> Life | None:
        rows = self._base.rows(
            "select e.host from watches w join engines e on e.id = w.owner and e.epoch = w.epoch"
            " where w.cluster_id = ? and w.lease_us > ? and e.stopped_us is null",
            cluster_id,
            self._now_us,
        )
        return self._fleet.lives[int(rows[0].host[4:]) - 1] if rows else None

    def _storm(self, what: str, holder: Life, action: Any, policy: HealthPolicy, rows: Any) -> None:
        """So many are sick by the rows and in memory, or being healed, that nobody may be healed."""
        cluster_id = action.cluster_id
        released = self._base.rows(
            "select id from releases where cluster_id = ? and expires_us > ?",
            cluster_id,
            min(self._now_us, holder.clock.now_us()),
        )
        limit = policy.recovery.limits
        others = [r for r in rows if r.cluster_id == cluster_id and r.id != action.id]
        if released or (limit.when_exceeded is WhenExceeded.SLOW and not others):
            return
        watch = holder.engine.watches.get(cluster_id)
        believed = watch.memories if watch is not None else {}
        sick = {
            n.id
            for n in self._base.rows(
                "select * from nodes where cluster_id = ? and health = 'unhealthy'", cluster_id
            )
            if n.id in believed
            and believed[n.id].health.value == "unhealthy"
            and not self.pauses(holder, n.id, cluster_id)
        }
        # Of one that is under maintenance by now, its recovery is in flight; it is no failure any more.
        sick |= {r.node_id for r in others if not [*self.pauses(holder, r.node_id, cluster_id)]}
        sick |= {action.node_id}
        if len(sick) > self.threshold(cluster_id, policy):
            self.fail(f"{what} while {len(sick)} of its cluster are sick: a storm")

    def threshold(self, cluster_id: str, policy: HealthPolicy) -> int:
        """Return how many of a cluster may be sick."""
        limit = policy.recovery.limits.max_unhealthy
        if limit.count is not None:
            return max(1, limit.count)
        (row,) = self._base.rows(
            "select desired_capacity as n from clusters where id = ?", cluster_id
        )
        return max(1, math.ceil(round((limit.percent or 0) * row.n, 6) / 100))

    def _seen(
        self, what: str, holder: Life, action: Any, policy: HealthPolicy, asked_s: float
    ) -> None:
        """`fall` looks since this engine has the watch, each an interval from the next."""
        (watch,) = self._base.rows(
            "select claimed_us from watches where cluster_id = ?", action.cluster_id
        )
        sight.judge(
            self._fleet,
            sight.Asked(
                what=what,
                life=holder,
                node_id=action.node_id,
                cluster_id=action.cluster_id,
                policy=policy,
                asked_s=asked_s,
                claimed_s=self._mono_s(watch.claimed_us),
            ),
        )

    def _give_back(self) -> None:
        """Recoveries that destroyed and made nothing, as far as is known, have their tokens returned."""
        if not self._counted:
            return
        places = ",".join("?" * len(self._counted))
        ended = self._base.rows(
            f"select * from actions where id in ({places}) and end_us is not null",
            *self._counted,
        )
        for action in ended:
            at_s = self._counted.pop(action.id)
            dear = self._base.rows(
                "select data from steps where action_id = ? and (stage in ('delete', 'create', 'act')"
                " or (stage = 'fence' and result = 'proved')) and result <> 'unclear' and"
                " (result not in ('halted', 'superseded') or submitted_us is not null)",
                action.id,
            )
            free = ("refused", "withheld")
            if all(any(map(json.loads(row.data).get, free)) for row in dear):
                for key in ("all", action.cluster_id):
                    self._times[key].remove(at_s)

    def _bucket(self, key: str) -> None:
        limit = BUDGETS.total if key == "all" else BUDGETS.cluster
        times = self._times[key]
        for first, at_s in enumerate(times):
            count = len(times) - first
            window_s = times[-1] - at_s + self._fleet.fooled_s
            if count > limit.burst + window_s * limit.per_hour / 3600 + 1e-6:
                self.fail(f"budget {key}: {count} recoveries within {window_s:.1f} s")

    def spent(self, cluster_id: str) -> bool:
        """Whether one more recovery would be more than the budgets give."""
        for key, limit in (("all", BUDGETS.total), (cluster_id, BUDGETS.cluster)):
            for count, at_s in enumerate(reversed(self._times[key]), start=2):
                flown = (self._fleet.now_s - at_s) * limit.per_hour / 3600
                if count > limit.burst + flown - 0.1:
                    return True
        return False

    def _caps(self, rows: Any) -> None:
        by_cluster: dict[str, int] = defaultdict(int)
        for row in rows:
            by_cluster[row.cluster_id] += 1
        for cluster_id, count in by_cluster.items():
            limit = self.policy(cluster_id).recovery.limits.max_in_flight
            if count > min(limit, BUDGETS.cluster.max_in_flight):
                self.fail(f"{count} recoveries in flight in cluster {cluster_id}")
        if len(rows) > BUDGETS.total.max_in_flight:
            self.fail(f"{len(rows)} recoveries in flight at once")

    # --- at any time -----------------------------------------------------------------------------

    def copies(self) -> None:
        """Never two living copies, but where the operator's policy waived the proof."""
        world = self._fleet.world
        world.settle()
        for older, newer in world.overlaps[self._overlaps :]:
            self._overlaps += 1
            waived = self._base.rows(
                "select p.id from proofs p join steps s on s.action_id = p.action_id"
                " where s.operation_id = ? and p.waived",
                newer.made_by,
            )
            if not waived:
                self.fail(f"two copies alive: {older} and {newer}")

    async def watch(self) -> None:
        """Once a second: copies, and whether every cluster is watched by somebody."""
        while True:
            await asyncio.sleep(1.0)
            self.copies()
            self._coverage()

    def _coverage(self) -> None:
        now_s = self._fleet.now_s
        able = []
        for life in self._fleet.living:
            if life.able:
                able.append(life.sane_since_s)
            else:
                life.sane_since_s = now_s
        for cluster_id in self._fleet.shape.idents.values():
            holder = self._holder(cluster_id)
            if not able or (holder is not None and holder.able and _at_work(holder, cluster_id)):
                self._gaps.pop(cluster_id, None)
                continue
            since_s = max(
                self._gaps.setdefault(cluster_id, now_s), min(able), self._kept_s(cluster_id)
            )
            self.longest_gap_s = max(self.longest_gap_s, now_s - since_s)
            if now_s - since_s > COVERED_WITHIN_S:
                self.fail(f"cluster {cluster_id} watched by nobody for {now_s - since_s:.1f} s")

    def _kept_s(self, cluster_id: str) -> float:
        """Return when somebody took the watch, or renewed its lease: he may be lost since."""
        rows = self._base.rows("select * from watches where cluster_id = ?", cluster_id)
        lease_us = int(SETTINGS.lease * 1e6)
        kept_s = [self._mono_s(max(r.claimed_us, r.lease_us - lease_us)) for r in rows]
        return max([*kept_s, self.forgot_s or 0.0])

    # --- facts -----------------------------------------------------------------------------------

    def policy(self, cluster_id: str) -> HealthPolicy:
        """Return the policy of a cluster; what operators edit here changes nothing that is judged."""
        return self._policies[cluster_id]

    @property
    def _policies(self) -> dict[str, HealthPolicy]:
        shape = self._fleet.shape
        return {shape.idents[c.name]: c.health for c in shape.clusters}

    def pauses(self, life: Life | None, node_id: str, cluster_id: str) -> Iterator[Any]:
        """Return what forbids acting on the node, by the database's clock and by the engine's own."""
        now_us = self._now_us
        last_us = max(now_us, life.clock.now_us() if life is not None else 0)
        for pause in self._base.rows("select * from pauses where lifted_us is null"):
            there = pause.scope == "all" or pause.target_id in {node_id, cluster_id}
            if there and pause.starts_us <= now_us and last_us < (pause.expires_us or 2**62):
                yield pause


def _asked(action: Any) -> bool:
    return str(action.status_reason).startswith("requested by") or "by" in json.loads(action.inputs)


def _at_work(life: Life, cluster_id: str) -> bool:
    return cluster_id in life.engine.watches
