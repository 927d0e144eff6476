"""The engines of the installation and what they watch, read in one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sqlalchemy import func, select

from yaffle.store import coverage, leases
from yaffle.store.tables import blindness, engines, watches

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.store.coverage import Coverage

RECENT_US: Final = 600_000_000
"""An engine that was lost longer ago than this is history: its work has long been taken over."""


class Lease(StrEnum):
    """Whether an engine may act, by the database's clock."""

    HELD = "held"
    OVER = "over"
    """It has not renewed in time: dead, frozen or cut off; others take over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """An engine that has registered and has not said good-bye."""

    id: str
    host: str
    pid: int
    epoch: int
    version: str
    schema: int
    started_us: int
    seen_s: float
    """Since it renewed its lease."""
    lease: Lease
    clusters: int
    """Watches that it holds."""
    blind: int
    """Clusters that it says it cannot see."""

    @property
    def name(self) -> str:
        """Return `host (pid 12, epoch 3)`."""
        return f"{self.host} (pid {self.pid}, epoch {self.epoch})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The engines, and what they watch together."""

    engines: Sequence[Sighting]
    coverage: Coverage
    now_us: int
    """The database's clock."""

    def as_json(self) -> list[dict[str, object]]:
        """Return the engines as plain values."""
        return [asdict(engine) for engine in self.engines]


def sighted(conn: Connection, *, lease_s: float) -> Fleet:
    """Return the engines that live, or were lost a short while ago, the oldest first."""
    now_us = leases.now(conn)
    held = watches.c.lease_us > now_us
    owned = _counts(conn, watches.c.owner, held)
    blind = _counts(conn, blindness.c.engine_id, blindness.c.until_us > now_us)
    rows = conn.execute(
        select(engines)
        .where(engines.c.stopped_us.is_(None), engines.c.seen_us > now_us - RECENT_US)
        .order_by(engines.c.started_us, engines.c.id)
    )
    found = [
        Sighting(
            id=row.id,
            host=row.host,
            pid=row.pid,
            epoch=row.epoch,
            version=row.version,
            schema=row.schema,
            started_us=row.started_us,
            seen_s=round(max(0, now_us - row.seen_us) / 1e6, 3),
            lease=Lease.HELD if now_us - row.seen_us <= lease_s * 1e6 else Lease.OVER,
            clusters=owned.get(row.id, 0),
            blind=blind.get(row.id, 0),
        )
        for row in rows
    ]
    return Fleet(engines=found, coverage=coverage.measure(conn), now_us=now_us)


def _counts(conn: Connection, column: object, condition: object) -> dict[str, int]:
    query = select(column, func.count()).where(condition).group_by(column)  # type: ignore[call-overload]
    return {str(ident): int(count) for ident, count in conn.execute(query)}
