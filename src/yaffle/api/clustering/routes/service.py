"""Routes of the service itself: its build, and which engines live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from yaffle.api.clustering import response_schemas
from yaffle.api.clustering.request import ApiRequest
from yaffle.api.clustering.table import Good, Route
from yaffle.api.clustering.times import bare
from yaffle.api.http.reply import Reply
from yaffle.store.dialects import now_us
from yaffle.store.tables import engines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection
    from starlette.responses import Response

REVISION: Final = "1.0"
DOWN_US: Final = 60_000_000
"""An engine that has not been heard of for longer than this is down."""
FORGOTTEN_US: Final = 86_400_000_000
"""One that has not been heard of for a day is history."""
TOPIC: Final = "senlin-engine"


async def build_info(call: ApiRequest) -> Response:
    """Show the revisions of API and engine."""
    revision = {"revision": REVISION}
    return Reply({"build_info": {"api": revision, "engine": revision}})


async def list_services(call: ApiRequest) -> Response:
    """List the engines that live, or died less than a day ago; for administrators."""
    return Reply({"services": await call.read(_services)})


def _services(conn: Connection) -> list[Mapping[str, object]]:
    now = conn.execute(select(now_us())).scalar_one()
    rows = conn.execute(
        select(engines)
        .where(engines.c.stopped_us.is_(None), engines.c.seen_us > now - FORGOTTEN_US)
        .order_by(engines.c.started_us, engines.c.id)
    ).mappings()
    return [
        {
            "id": row["id"],
            "binary": TOPIC,
            "host": row["host"],
            "topic": TOPIC,
            "status": "enabled",
            "state": "up" if now - row["seen_us"] <= DOWN_US else "down",
            "disabled_reason": None,
            "updated_at": bare(row["seen_us"]),
        }
        for row in rows
    ]


ROUTES: Final = (
    Route(
        method="GET",
        path="/build-info",
        handler=build_info,
        tag="service",
        good=Good(schema=response_schemas.BUILD_INFO),
    ),
    Route(
        method="GET",
        path="/services",
        handler=list_services,
        tag="service",
        good=Good(schema=response_schemas.listed("services", response_schemas.SERVICE)),
    ),
)
