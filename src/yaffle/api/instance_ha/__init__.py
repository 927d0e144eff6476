"""The instance-HA API, Masakari's v1: masakari-monitors and `openstack notification …` work unchanged.

From a request to its answer: the table of routes (`routes`) → who, which version (`face`) → the body's
schema (`bodies`) → a verb of the engine or a read (`lists`) → `views`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import Route as HttpRoute

from yaffle.api.clustering import response_schemas
from yaffle.api.clustering.openapi import Chapter
from yaffle.api.clustering.table import http_route
from yaffle.api.errors.fault import FAULTS, OTHER
from yaffle.api.instance_ha import discovery, views
from yaffle.api.instance_ha.face import FACE
from yaffle.api.instance_ha.routes import ROUTES

if TYPE_CHECKING:
    from fastapi import FastAPI

    from yaffle.api.app_context import AppContext

__all__ = ["CHAPTER", "mount"]

_SAID: Final = response_schemas.thing(
    {"code": response_schemas.INTEGER, "message": response_schemas.STRING}
)
CHAPTER: Final = Chapter(
    label="instance-ha",
    face=FACE,
    routes=ROUTES,
    discovery=discovery.DISCOVERY,
    components={
        "FailoverSegment": views.SEGMENT,
        "FailoverHost": views.HOST,
        "HaNotification": views.NOTIFICATION,
        "VmMove": views.MOVE,
    },
    fault=(
        "MasakariFault",
        {
            "type": "object",
            "description": "One key, which says what kind of refusal it is.",
            "properties": dict.fromkeys((*FAULTS.values(), OTHER), _SAID),
            "additionalProperties": False,
        },
    ),
)


class HexId(Convertor[str]):
    """A part of a path that is an id of Keystone's."""

    regex = "[0-9a-f-]+"

    def convert(self, value: str) -> str:
        """Return it as it is."""
        return value

    def to_string(self, value: str) -> str:
        """Return it as it is."""
        return value


HEX_ID: Final = "hexid"
register_url_convertor(HEX_ID, HexId())
PROJECT: Final = f"/{{project:{HEX_ID}}}"
"""What catalogs put before every path: a project's id. A name there leads nowhere."""


def mount(app: FastAPI, parts: AppContext) -> None:
    """Add every route of the instance-HA API, and what answers below it where none is."""
    routes: list[HttpRoute] = discovery.documents()
    for below in ("", PROJECT):
        routes += [http_route(route, parts, FACE, below=below) for route in ROUTES]
    app.router.routes.extend([*routes, *discovery.nowhere()])
