"""Diagnoses the engines of the installation and the offset of our clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sqlalchemy import func, select

from yaffle.api.diagnostics.report import Check, Status, judged
from yaffle.model.counts import count
from yaffle.store import coverage, leases
from yaffle.store.tables import blindness, engines, watches

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.store.coverage import Coverage

RECENT_US: Final = 600_000_000
"""An engine that was lost longer ago than this is history: its work has long been taken over."""
LISTED_MAX: Final = 10
OFFSET_S: Final = 1.0
"""A clock that far from the database's makes the logs of two machines hard to compare."""


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


def checks_of(fleet: Fleet, *, host_us: int, took_s: float) -> Iterator[Check]:
    """Yield what is to be said of them; `host_us` is our clock half-way through the look."""
    alive = [e for e in fleet.engines if e.lease is Lease.HELD]
    lost = [e for e in fleet.engines if e.lease is Lease.OVER]
    if not alive:
        yield Check(
            name="engines",
            status=Status.FAIL,
            detail="none lives; nothing is watched or healed" + _lost(lost),
            advice="Start `yaffle engine` on some machine, or `yaffle serve`.",
        )
    else:
        told = "; ".join(_told(e) for e in alive[:LISTED_MAX])
        more = f"; and {len(alive) - LISTED_MAX} more" if len(alive) > LISTED_MAX else ""
        yield judged(
            "engines",
            bool(lost),
            f"{len(alive)} live: {told}{more}{_lost(lost)}",
            "Look at the hosts named: died, frozen, or cut off from the database. Their work is"
            " taken over meanwhile.",
        )
    yield from _of_versions(alive)
    yield _of_coverage(fleet.coverage)
    offset_s = (host_us - fleet.now_us) / 1e6
    yield judged(
        "clock offset",
        abs(offset_s) > OFFSET_S + took_s,
        f"{offset_s:+.3f} s against the database's clock (asked within {took_s * 1000:.0f} ms)",
        "Yaffle goes by the database's clock, so nothing is judged wrongly; but logs of the two"
        " machines do not fit together. Run an NTP daemon on both.",
    )


def _of_coverage(found: Coverage) -> Check:
    longest = f", some cluster for {found.longest_s:.1f} s" if found.longest_s else ""
    return judged(
        "coverage",
        found.clusters_watched < found.clusters,
        f"{found.nodes_watched} of {found.nodes} nodes are watched ({100 * found.ratio:.4g} %)"
        f"{longest}",
        "What nobody watches is taken within a lease and a second; if it stays so, no engine acts.",
    )


def _of_versions(alive: Sequence[Sighting]) -> Iterator[Check]:
    kinds = sorted({(e.version or "unknown", e.schema) for e in alive})
    if len(kinds) > 1:
        told = ", ".join(f"{version} (schema {schema})" for version, schema in kinds)
        yield Check(
            name="versions",
            status=Status.WARN,
            detail=f"several at once: {told}",
            advice="That is what a rolling upgrade looks like; finish it.",
        )


def _told(engine: Sighting) -> str:
    version = f", version {engine.version}" if engine.version else ""
    blind = f", blind for {engine.blind}" if engine.blind else ""
    return (
        f"{engine.name} watches {count(engine.clusters, 'cluster')}{blind}, last heartbeat"
        f" {engine.seen_s:.1f} s ago{version}"
    )


def _lost(lost: Sequence[Sighting]) -> str:
    if not lost:
        return ""
    told = ", ".join(f"{e.name} {e.seen_s:.0f} s ago" for e in lost[:LISTED_MAX])
    return f"; lost: {told}"
