"""Persists health in batches, so that a large cluster does not hold up the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.engine.detection.health_persistence import save

if TYPE_CHECKING:
    from yaffle.engine.detection.cluster_snapshot import ClusterSnapshot
    from yaffle.engine.detection.health_tracker import HealthTracker
    from yaffle.engine.detection.host_attribution import HostAttribution
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session

SAVED_MAX: Final = 40
"""Beliefs that one transaction writes, some ten statements each."""


async def save_all(
    ctx: EngineContext,
    session: Session,
    snapshot: ClusterSnapshot,
    beliefs: HealthTracker,
    hosts: HostAttribution,
) -> None:
    """Write every health state that changed since its last write; raises as `health_persistence.save`."""
    if not beliefs.unsaved(disturbed=snapshot.disturbed):
        return
    counts = await hosts.take(snapshot, beliefs)
    # Only now: time went by while hosts were asked for.
    changed = beliefs.unsaved(disturbed=snapshot.disturbed)
    idents = sorted(changed)
    for first in range(0, len(idents), SAVED_MAX):
        some = {i: changed[i] for i in idents[first : first + SAVED_MAX]}
        async with session.turns:
            saved = await ctx.store.write(
                lambda conn, some=some: save(ctx, session, conn, snapshot, some, counts)  # type: ignore[misc]
            )
        beliefs.stored(saved)
