"""Version documents of the instance-HA API, and what answers where it has no route."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.routing import Route as HttpRoute

from yaffle.api.clustering import microversion
from yaffle.api.clustering.errors import page
from yaffle.api.clustering.table import root_of
from yaffle.api.errors.fault import fault
from yaffle.api.http.reply import Reply
from yaffle.api.instance_ha.face import FACE, NEWEST, OLDEST, PREFIX, answer
from yaffle.errors import YaffleError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

ROOT: Final = PREFIX.removesuffix("/v1")
MEDIA: Final = {
    "base": "application/json",
    "type": "application/vnd.openstack.masakari+json;version=1",
}
METHODS: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
DISCOVERY: Final = {
    f"{ROOT}/": ("list_instance_ha_versions", "Tell which versions there are.", 200),
    f"{PREFIX}/": ("show_instance_ha_version", "Tell about version 1 and its microversions.", 200),
}
"""What `documents` answers, for the OpenAPI document: name, sentence, status."""
REFUSING: Final = frozenset({"notifications", "vmoves"})
"""Nouns that are not changed: what tries to is told so, and not that there is no such place."""


def _version() -> Mapping[str, object]:
    return {
        "id": "v1.0",
        "status": "CURRENT",
        "version": str(NEWEST),
        "min_version": str(OLDEST),
        "updated": "2016-07-01T11:33:21Z",
    }


def _choice(request: Request) -> Mapping[str, object]:
    told = {key: _version()[key] for key in ("id", "status")}
    link = {"rel": "self", "href": f"{root_of(request)}{PREFIX}/"}
    return {**told, "links": [link], "media-types": [MEDIA]}


def documents() -> list[HttpRoute]:
    """Return the routes of the version documents."""

    async def versions(request: Request) -> Response:
        link = {"rel": "self", "href": f"{root_of(request)}{PREFIX}/"}
        return Reply({"versions": [{**_version(), "links": [link]}]})

    async def version(request: Request) -> Response:
        try:
            asked = FACE.spoken.asked(request.headers.getlist(microversion.HEADER))
        except YaffleError as error:
            return answer(error)
        links = [
            {"rel": "self", "href": f"{root_of(request)}{PREFIX}/"},
            {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"},
        ]
        document = {**_version(), "links": links, "media-types": [MEDIA]}
        headers = {
            microversion.HEADER: f"{FACE.spoken.service} {asked}",
            "Vary": microversion.HEADER,
        }
        return Reply({"version": document}, 200, headers)

    return [
        HttpRoute(ROOT, versions, methods=["GET"]),
        HttpRoute(f"{ROOT}/", versions, methods=["GET"]),
        HttpRoute(PREFIX, version, methods=["GET"]),
        HttpRoute(f"{PREFIX}/", version, methods=["GET"]),
    ]


def nowhere() -> list[HttpRoute]:
    """Return what answers below the API where no route does."""

    async def nothing(request: Request) -> Response:
        parts = str(request.path_params["rest"]).split("/")
        if parts[0] != "v1":
            return Reply({"choices": [_choice(request)]}, HTTPStatus.MULTIPLE_CHOICES)
        if request.method in {"PUT", "DELETE"} and len(parts) > 1 and parts[-2] in REFUSING:
            said = f"The request method: '{request.method}' is not allowed on this resource"
            return Reply(fault(405, said), 405)
        return page(404)

    return [HttpRoute(f"{ROOT}/{{rest:path}}", nothing, methods=METHODS)]
