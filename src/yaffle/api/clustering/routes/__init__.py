"""Routes of the clustering API: one file per noun gives its rows; this file puts them in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.api.clustering.routes import (
    actions,
    bindings,
    clusters,
    events,
    nodes,
    policies,
    profiles,
    receivers,
    service,
    types,
)

if TYPE_CHECKING:
    from yaffle.api.clustering.table import Route

ROUTES: Final[tuple[Route, ...]] = (
    *service.ROUTES,
    *types.ROUTES,
    *profiles.ROUTES,
    *policies.ROUTES,
    *clusters.ROUTES,
    *bindings.ROUTES,
    *nodes.ROUTES,
    *actions.ROUTES,
    *receivers.ROUTES,
    *events.ROUTES,
)
"""Every operation below `/v1`. A new noun is a file with `ROUTES`, added here."""
