"""Version discovery: documents without credentials, and 300 for what is no version."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.routing import Route as HttpRoute

from yaffle.api.clustering import errors, microversion
from yaffle.api.clustering.errors import NoSuchPlace
from yaffle.api.clustering.table import PREFIX, root_of
from yaffle.api.http.reply import Reply
from yaffle.errors import YaffleError

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

HELP: Final = "https://docs.openstack.org/api-ref/clustering"
MEDIA: Final = "application/vnd.openstack.clustering-"
_VERSION: Final = re.compile(r"/v\d+(\.\d+)?(/|$)")
"""Paths of versions of the clustering API. A probe's mistyped path is none: it is to fail."""
METHODS: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


DISCOVERY: Final = {
    "/": ("list_versions", "Tell which versions there are, as a choice of one.", 300),
    "/versions": ("list_versions_too", "Tell the same as `/`.", 300),
    PREFIX: ("show_version", "Tell about version 1 and its microversions.", 200),
}
"""What `documents` answers, for the OpenAPI document: name, sentence, status."""


def version_document(root: str) -> dict[str, object]:
    """Return what there is to know about version 1."""
    return {
        "id": str(microversion.OLDEST),
        "status": "CURRENT",
        "updated": "2016-01-18T00:00:00Z",
        "media-types": [{"base": "application/json", "type": f"{MEDIA}v1+json"}],
        "links": [
            {"href": f"{root}{PREFIX}", "rel": "self"},
            {"rel": "help", "href": HELP},
        ],
        "min_version": str(microversion.OLDEST),
        "max_version": str(microversion.NEWEST),
    }


def documents() -> list[HttpRoute]:
    """Return the routes of the version documents."""

    async def all_versions(request: Request) -> Response:
        return _choices(request)

    async def this_version(request: Request) -> Response:
        try:
            version = microversion.asked(request.headers.getlist(microversion.HEADER))
        except YaffleError as error:
            return errors.answer(error)
        headers = {
            microversion.HEADER: f"{microversion.SERVICE} {version}",
            "Vary": microversion.HEADER,
        }
        return Reply({"version": version_document(root_of(request))}, 200, headers)

    return [
        HttpRoute("/", all_versions, methods=["GET"]),
        HttpRoute("/versions", all_versions, methods=["GET"]),
        HttpRoute(PREFIX, this_version, methods=["GET"]),
        HttpRoute(f"{PREFIX}/", this_version, methods=["GET"]),
    ]


def nowhere() -> list[HttpRoute]:
    """Return what answers below `/v1` where no route does: a page, whatever the method."""

    async def nothing(request: Request) -> Response:
        try:
            microversion.asked(request.headers.getlist(microversion.HEADER))
        except YaffleError as error:
            return errors.answer(error)
        return errors.answer(NoSuchPlace())

    paths = ("/", "/versions", PREFIX, PREFIX + "/{rest:path}")
    return [HttpRoute(path, nothing, methods=METHODS) for path in paths]


class Elsewhere:
    """Answers for versions of the clustering API that there are not."""

    def __init__(self, otherwise: ASGIApp) -> None:
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell which versions there are, or that there is nothing."""
        if scope["type"] != "http" or not _VERSION.match(str(scope["path"])):
            await self._otherwise(scope, receive, send)
            return
        request = Request(scope)
        accept = request.headers.get("accept", "").strip()
        wanted = accept in {"", "*/*"} or accept.startswith(MEDIA)
        answer = _choices(request) if wanted else errors.answer(NoSuchPlace())
        await answer(scope, receive, send)


def _choices(request: Request) -> Response:
    return Reply({"versions": [version_document(root_of(request))]}, 300)
