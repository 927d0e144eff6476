"""The tables of routes: what a route is, and the one way from a request to its handler.

A row says everything that the OpenAPI document and the page of the API need; what it says of bodies
and parameters is also what is enforced. What a route needs of the caller is in `api.rights`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.routing import Route as HttpRoute

from yaffle.api.clustering import errors, microversion, validation
from yaffle.api.clustering.errors import HTTPBadRequest, MethodVersionNotFound
from yaffle.api.clustering.microversion import CLUSTERING, OLDEST, Microversion
from yaffle.api.clustering.request import ApiRequest
from yaffle.api.http.client_shares import share_of
from yaffle.api.rights import has_row
from yaffle.errors import StaleEpoch, YaffleError
from yaffle.model.authz import Principal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from yaffle.api.app_context import AppContext
    from yaffle.api.clustering.microversion import Spoken
    from yaffle.api.clustering.validation import Body, Schema

PREFIX: Final = "/v1"
Handler = Callable[[ApiRequest], Awaitable["Response"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A query parameter."""

    name: str
    text: str
    schema: Schema
    repeatable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Good:
    """A good answer: its status, what it means, and its schema (None: no body)."""

    status: int = 200
    text: str = "As asked."
    schema: Schema | None = None
    media: str = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route of the API; the handler's docstring describes it."""

    method: str
    path: str
    """Below the prefix of its API, with `{name}` for parts that vary."""
    handler: Handler
    tag: str
    good: Good
    since: Microversion = OLDEST
    params: tuple[Param, ...] = ()
    any_params: bool = False
    """Whether unknown query parameters are let through (webhooks)."""
    body: Body | None = None
    errors: Mapping[int, str] = field(default_factory=dict)
    """Refusals worth telling beyond those that every route may give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """An API of another project that is spoken here: what all of its routes have in common."""

    prefix: str
    spoken: Spoken
    answer: Callable[[YaffleError], Response]
    """Returns a refusal in its shape."""
    read: Callable[[Body, bytes, Microversion], Mapping[str, object]]
    """Returns what a body's wrapper holds, once it satisfies the schema; raises BadRequest otherwise."""
    versions_refusals: bool = False
    """Whether a refusal says which version answered, too."""


FACE: Final = Face(
    prefix=PREFIX,
    spoken=CLUSTERING,
    answer=errors.answer,
    read=lambda body, raw, _version: validation.read(body, raw),
)


def http_route(route: Route, parts: AppContext, face: Face = FACE, *, below: str = "") -> HttpRoute:
    """Return the route as the web framework wants it; `below`: what stands before its path."""

    async def endpoint(request: Request) -> Response:
        version = None
        try:
            version = face.spoken.asked(request.headers.getlist(microversion.HEADER))
            response = await route.handler(await _call(route, parts, request, face, version))
        except StaleEpoch:
            raise
        except YaffleError as error:
            refusal = face.answer(error)
            if version is None or not face.versions_refusals:
                return refusal
            return _spoken(refusal, face.spoken, version)
        return _spoken(response, face.spoken, version)

    return HttpRoute(face.prefix + below + route.path, endpoint, methods=[route.method])


async def _call(
    route: Route, parts: AppContext, request: Request, face: Face, version: Microversion
) -> ApiRequest:
    if version < route.since:
        raise MethodVersionNotFound(f"API version '{version}' is not supported on this method.")
    await has_row(request)
    query = _query(route, request)
    return ApiRequest(
        parts=parts,
        who=who_of(request),
        version=version,
        root=root_of(request),
        caller=share_of(request.client.host) if request.client else "",
        path=request.path_params,
        query=query,
        body=await _body(route, request, face, version),
    )


def _query(route: Route, request: Request) -> dict[str, list[str]]:
    known = {param.name for param in route.params}
    found: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        if name not in known and not route.any_params:
            raise HTTPBadRequest(f"Invalid parameter {name[:100]}")
        found.setdefault(name, []).append(value)
    return found


async def _body(
    route: Route, request: Request, face: Face, version: Microversion
) -> Mapping[str, object]:
    if route.body is None:
        return {}
    try:
        raw = await request.body()
    except HTTPException as error:  # the gate's: too much, or too slow
        raise errors.RequestLimitExceeded(str(error.detail)) from None
    return face.read(route.body, raw, version)


def _spoken(response: Response, spoken: Spoken, version: Microversion) -> Response:
    """Say which version answered; pages, as refusals, belong to none."""
    if response.media_type != "text/html":
        response.headers[microversion.HEADER] = f"{spoken.service} {version}"
        response.headers["Vary"] = microversion.HEADER
    return response


def who_of(request: Request) -> Principal:
    """Return who asks, as the gate has found out."""
    who = request.scope["yaffle.who"]
    assert isinstance(who, Principal)  # noqa: S101 - the gate leaves it there
    return who


def root_of(request: Request) -> str:
    """Return `http://HOST:PORT` as the client wrote it; the gate knows that host."""
    return f"{request.scope['scheme']}://{request.headers.get('host', '')}"
