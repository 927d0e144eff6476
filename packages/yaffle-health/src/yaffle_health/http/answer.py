"""The table of the endpoint: which method on which path gets which status, headers and body.

| request | answer |
|---|---|
| GET, HEAD /health | 200 or 503, in the shape negotiated; HEAD without the body |
| OPTIONS /health | 204, Allow |
| another method | 405, Allow |
| another path, also `/` | 404 |
| `?group=` unknown | 404, and which groups there are |

Of the query string only `format` and `group` are read. The body of a request is never.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from yaffle_health.errors import BadOption, UnknownGroup
from yaffle_health.http.request import Request
from yaffle_health.http.response import Response, said
from yaffle_health.model import Health, Status
from yaffle_health.options import is_whole, seconds, text
from yaffle_health.views import CONTENT_TYPES, Shape, first, http_status, negotiate, render

PATH = "/health"
NO_CACHE = "no-cache"
DELTA_S_MAX = 2**31
"""More than this no cache need understand (RFC 9111 §1.2.2)."""

HealthOf = Callable[[str | None], Health]
"""Gives the health of a group, or of everything for None; raises UnknownGroup."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the answers look; BadOption for values that cannot be meant.

    `cache_control`: None means the same as `ttl_s`; 0 no header, -1 `no-cache`, else max-age in
    seconds. `cache_cap` keeps a cache from holding an answer longer than its items live.
    `group` is what a request without `?group=` gets.
    """

    ttl_s: float = 300
    cache_control: int | None = None
    cache_cap: bool = False
    format: Shape = Shape.NOVA
    group: str | None = None

    def __post_init__(self) -> None:
        seconds("ttl", self.ttl_s)
        text("group", self.group)
        wanted = self.cache_control
        if wanted is not None and (not is_whole(wanted) or wanted < -1):
            why = "must be -1 (no-cache), 0 (no header) or a whole number of seconds"
            raise BadOption("cache_control", wanted, why)

    @property
    def max_age_s(self) -> int:
        """What `cache_control` comes to: whole seconds, 0 for no header, -1 for `no-cache`."""
        if self.cache_control is not None:
            return min(self.cache_control, DELTA_S_MAX)
        return min(math.floor(self.ttl_s), DELTA_S_MAX) or (-1 if self.ttl_s else 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """What a request comes to: the health of a group, in a shape."""

    group: str | None
    shape: Shape
    head_only: bool
    drain: bool


def answer(request: Request, health_of: HealthOf, options: Options) -> Response:
    """Answer one request. What `health_of` raises, but for UnknownGroup, goes through."""
    question = route(request, options)
    if isinstance(question, Response):
        return question
    try:
        health = health_of(question.group)
    except UnknownGroup as error:
        return no_such_group(question, error)
    return respond(question, health, options)


def route(request: Request, options: Options) -> Question | Response:
    """What is asked; or the answer, where it does not depend on any health."""
    head_only = request.method == "HEAD"
    drain = request.more_follows
    if request.path != PATH and not (request.method == "OPTIONS" and request.path == "*"):
        return said(404, f"only {PATH} is here", head_only=head_only, drain=drain)
    if request.method == "OPTIONS":
        return Response(204, (("Allow", "GET, HEAD, OPTIONS"),), drain=drain)
    if request.method not in {"GET", "HEAD"}:
        refused = said(405, f"{PATH} can only be read", drain=drain)
        return dataclasses.replace(refused, headers=(("Allow", "GET, HEAD"), *refused.headers))
    group = first(request.query, "group") or options.group
    shape = negotiate(request.query, request.accept, options.format)
    return Question(group, shape, head_only, drain)


def no_such_group(question: Question, error: UnknownGroup) -> Response:
    """404, and which groups there are."""
    return said(404, str(error), head_only=question.head_only, drain=question.drain)


def respond(question: Question, health: Health, options: Options) -> Response:
    """Show that health as it was asked for."""
    headers = (
        ("Content-Type", CONTENT_TYPES[question.shape]),
        *_cache_control(health, options),
        ("Vary", "Accept"),
    )
    status, body = http_status(health, question.shape), render(health, question.shape)
    return Response(status, headers, body, question.head_only, question.drain)


def _cache_control(health: Health, options: Options) -> tuple[tuple[str, str], ...]:
    wanted = options.max_age_s
    if health.status is Status.FAIL:
        # Whatever is configured: nobody may go on believing a failure that is over.
        return (("Cache-Control", NO_CACHE),)
    if wanted == 0:
        return ()
    if options.cache_cap and wanted > 0 and health.next_expiry_s is not None:
        # 0 seconds left does not mean "no header" any more, it means "ask again".
        wanted = min(wanted, math.floor(health.next_expiry_s))
    return (("Cache-Control", f"max-age={wanted}" if wanted > 0 else NO_CACHE),)
