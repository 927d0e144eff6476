"""The state of one cluster action within one transaction, and what the transaction decided.

A parent does nothing itself: it inserts parts, waits for them, and goes on or ends. Each of its
moves is one transaction, so that whoever finds it after a crash finds it whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from yaffle.model.authz import Principal
from yaffle.model.health import ClusterStatus
from yaffle.model.operations import EMPTY
from yaffle.store import actions, catalog, events
from yaffle.store.events import Subject

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.store.rows import ActionRow, ClusterRow

SUCCESS = "Action completed successfully."
REASON_MAX = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAction:
    """One cluster action within one transaction."""

    ctx: EngineContext
    conn: Connection
    action: ActionRow
    cluster: ClusterRow
    now_us: int

    @property
    def who(self) -> Principal:
        """The principal of the child actions; rights were checked at the request."""
        return Principal(
            user=self.action.user,
            project=self.cluster.project,
            domain=self.action.domain,
            rights=frozenset(),
        )

    @property
    def inputs(self) -> Mapping[str, object]:
        """The inputs of the action."""
        return self.action.inputs

    def parts(self) -> Sequence[ActionRow]:
        """Return the child actions, the oldest first."""
        return actions.parts(self.conn, self.action.id)

    def set_cluster(self, **values: object) -> ClusterAction:
        """Change the cluster's row; return the action with the changed row."""
        catalog.set_cluster(self.conn, self.cluster.id, self.now_us, **values)
        return replace(self, cluster=replace(self.cluster, **values))  # type: ignore[arg-type]

    def show(self, status: ClusterStatus) -> ClusterAction:
        """Set the cluster's status for the time of the action."""
        return self.set_cluster(
            status=status.value, status_reason=f"{self.action.action}: in progress"
        )

    def event(self, status: str, reason: str, level: int = events.INFO) -> None:
        """Write an event of the action: start, end or error."""
        events.append(
            self.conn,
            Subject(
                otype="CLUSTER",
                oid=self.cluster.id,
                oname=self.cluster.name,
                cluster_id=self.cluster.id,
                project=self.cluster.project,
                user=self.action.user,
            ),
            at_us=self.now_us,
            action=self.action.action,
            status=status,
            reason=reason[:REASON_MAX],
            level=level,
            data={"action": self.action.id, "by": self.action.user},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The action waits for its children to end, or until `until_us`."""

    data: Mapping[str, object] = field(default_factory=lambda: EMPTY)
    """Written over the action's `data`: what the next move needs to know."""
    until_us: int | None = None
    more_s: int = 0
    """By how much longer it may take than was meant: others are waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The action is over."""

    status: str = actions.SUCCEEDED
    reason: str = SUCCESS
    outputs: Mapping[str, object] = field(default_factory=lambda: EMPTY)


Transition = Wait | Ended


def failed(reason: str) -> Ended:
    """Return the end of an action that failed."""
    return Ended(status=actions.FAILED, reason=reason)


def verdict(parts: Sequence[ActionRow]) -> Ended:
    """Return the end of an action whose children have all ended.

    A node may have had several parts (a deletion that was tried again): its last one counts.
    """
    last = {part.target: part for part in parts}
    bad = [part for part in last.values() if part.status != actions.SUCCEEDED]
    if not bad:
        return Ended()
    first = bad[0]
    why = f"{len(bad)} of {len(last)} parts did not succeed, first {first.name}: "
    return failed(f"{why}{first.status.lower()}, {first.status_reason}"[:REASON_MAX])
