"""The rules of writing: who may change the row of whom, judged within the transaction that does it.

An owner that lost an action writes nothing about it; nothing is taken from an owner that lives; what
is said to be proved or verified was so in the world. A call to a driver shows these too late, or not
at all where the late hand only writes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.sim.fleet.fleet import Fleet, Life

    from yaffle.model.policy import HealthPolicy
    from yaffle.testing.world import Copy

ENDED = {"SUCCEEDED", "FAILED", "CANCELLED"}
MADE = {"create", "act"}
SURE = {"fence", "delete"}
WELL = {"passed", "healthy"}


class Ledger:
    """Judges each change that a process makes, by what the rows and the world say at that moment."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._base = fleet.base
        self._begun_s: dict[tuple[str, int], float] = {}
        """When each step was intended."""
        self.born_s: dict[str, float] = {}
        """When each node's life last began anew, by what was written of it."""
        self.taken: Counter[int | None] = Counter()
        """How many actions and watches were taken over from each process."""

    def judge(self, life: Life | None) -> None:
        """Go through what has been changed since the last time, by this process or by a person."""
        changes, self._base.changes = self._base.changes, []
        for table, *values in changes:
            getattr(self, f"_{table}")(life, *values)

    def set_back(self) -> None:
        """What was done since is gone from the rows."""
        self.born_s.clear()

    # --- rows ----------------------------------------------------------------------------------

    def _steps(
        self,
        life: Life | None,
        ident: str,
        seq: int,
        phase: str,
        epoch: int,
        stage: str,
        result: str,
    ) -> None:
        if life is None:
            return
        (action,) = self._base.rows("select * from actions where id = ?", ident)
        what = f"step {seq} ({stage} {phase} {result}) of {ident[:8]} written by {life}"
        if self._host(action.owner) != life.number:
            self._fail(f"{what}, which is engine {self._host(action.owner)}'s by now")
        if epoch != action.epoch:
            self._fail(f"{what} under epoch {epoch}: its owner has {action.epoch}")
        if phase == "intent":
            self._begun_s.setdefault((ident, seq), self._fleet.now_s)
            self._in_order(what, ident, seq)
        if phase != "ended" or action.node_id is None:
            return
        since_s = self._begun_s.get((ident, seq), 0.0)
        if result == "proved" and stage in SURE:
            self._proved(what, action, since_s)
        if result in WELL and action.cluster_id is not None:
            self._verified(what, action, since_s)
        if result == "done" and stage in MADE:
            self._made(what, action, seq)

    def _in_order(self, what: str, ident: str, seq: int) -> None:
        half_done = self._base.rows(
            "select seq from steps where action_id = ? and seq < ? and phase <> 'ended'", ident, seq
        )
        if half_done:
            self._fail(f"{what}, and step {half_done[0].seq} before it is half done")

    def _actions(
        self,
        life: Life | None,
        ident: str,
        owner: str,
        epoch: int,
        status: str,
        lease_us: int,
        new_owner: str,
        new_status: str,
    ) -> None:
        if status != "RUNNING" or life is None:
            return
        what = f"action {ident[:8]} of engine {self._host(owner)}"
        if new_owner != owner and not self._lost(owner, lease_us):
            self._fail(f"{what} is taken by {life} though its owner lives")
        self.taken[self._host(owner)] += new_owner != owner
        if new_owner == owner and new_status in ENDED and self._host(owner) != life.number:
            self._fail(f"{what} is ended by {life}, {new_status}")

    def _watches(
        self,
        life: Life | None,
        ident: str,
        owner: str,
        epoch: int,
        lease_us: int,
        new_owner: str,
    ) -> None:
        if life is None or not owner or owner == new_owner:
            return
        what = f"the watch of {ident[:8]}, held by engine {self._host(owner)},"
        if new_owner and not self._lost(owner, lease_us):
            self._fail(f"{what} is taken by {life} though its holder lives")
        self.taken[self._host(owner)] += bool(new_owner)
        if not new_owner and self._host(owner) not in {life.number, None}:
            self._fail(f"{what} is given up by {life}")

    def _incidents(self, life: Life | None, ident: str, node_id: str, state: str) -> None:
        if state != "recovered":
            return
        if not node_id:
            self._host_over(life, ident)
            return
        seen = self._base.rows(
            "select s.seq from steps s join actions a on a.id = s.action_id where a.incident_id = ?"
            " and s.result in ('passed', 'healthy')",
            ident,
        )
        if not seen:
            self._fail(f"the incident of {node_id[:8]} is called recovered by {life}, unverified")

    def _host_over(self, life: Life | None, ident: str) -> None:
        """A host's incident is over with the last of its parts, and they were verified each."""
        left = self._base.rows(
            "select node_name from incidents where parent_id = ? and open_key is not null", ident
        )
        if left:
            self._fail(f"a host is called recovered by {life}, and {left[0].node_name} is not")
        (row,) = self._base.rows("select cause, hold_numbers from incidents where id = ?", ident)
        if row.cause == "host-quarantined" and '"known": "left"' in str(row.hold_numbers):
            self._fail(f"a host is let in by {life}, and an old copy is left there")

    # --- the world ------------------------------------------------------------------------------

    def _proved(self, what: str, action: Any, since_s: float) -> None:
        """No copy runs that ran when the step began."""
        for copy in self._fleet.world.alive(action.node_id):
            if copy.started_s < since_s:
                self._fail(f"{what}, though {copy.physical_id} has run since {copy.started_s:.3f}")

    def _verified(self, what: str, action: Any, since_s: float) -> None:
        """Since the step began there was a moment at which whoever looked saw the node well."""
        if self._fleet.lied:
            return
        served = _has_to_serve(self._fleet.referee.policy(action.cluster_id))
        self._fleet.world.settle()
        copies = self._fleet.world.copies[action.node_id]
        if not any(self._was_well(c, since_s, served=served) for c in copies):
            self._fail(f"{what}, though no copy {'served' if served else 'ran'} since it began")

    def _was_well(self, copy: Copy, since_s: float, *, served: bool) -> bool:
        ran = copy.stopped_s is None or copy.stopped_s >= since_s
        hung_s = self._fleet.hung_s.get(copy.node_id, -1.0)
        return ran and (copy.serving or not served or hung_s >= since_s)

    def _made(self, what: str, action: Any, seq: int) -> None:
        """A new life begins with grace, from when it was made on."""
        (node,) = self._base.rows("select * from nodes where id = ?", action.node_id)
        self.born_s[action.node_id] = self._fleet.now_s
        (step,) = self._base.rows(
            "select * from steps where action_id = ? and seq = ?", action.id, seq
        )
        if self._fleet.fooled:
            return
        if node.grace_us is None or node.grace_us < step.intent_us:
            self._fail(f"{what}, and no grace begins (it began at {node.grace_us})")

    # --- facts ----------------------------------------------------------------------------------

    def _engine(self, ident: str) -> Sequence[Any]:
        return self._base.rows("select * from engines where id = ?", ident)

    def _host(self, ident: str) -> int | None:
        """Return the number of the process that registered under this name."""
        rows = self._engine(ident)
        return int(rows[0].host[4:]) if rows else None

    def _lost(self, owner: str, lease_us: int) -> bool:
        """Whether the lease was over by the database's clock, or given back."""
        rows = self._engine(owner)
        return not rows or rows[0].stopped_us is not None or lease_us < self._base.clock.now_us()

    def _fail(self, text: str) -> None:
        self._fleet.referee.fail(text)


def _has_to_serve(policy: HealthPolicy) -> bool:
    """Whether a look passes only where somebody was served: a copy that hangs runs all the same."""
    kinds = {m.type.value for m in policy.detection.modes}
    alone = kinds == {"NODE_STATUS_POLL_URL"}
    either = policy.detection.conditional.value == "ANY_FAILED"
    return alone or (either and "NODE_STATUS_POLL_URL" in kinds)
