"""Diagnoses the engines of the installation and the offset of our clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from yaffle.api.diagnostics.report import Check, Status, judged
from yaffle.model.counts import count
from yaffle.store.fleet import Fleet, Lease, Sighting

if TYPE_CHECKING:
    from yaffle.store.coverage import Coverage

LISTED_MAX: Final = 10
OFFSET_S: Final = 1.0
"""A clock that far from the database's makes the logs of two machines hard to compare."""


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
