"""The one path that a health app inside somebody's web service owns: exactly that, and nothing else.

A health middleware that answered for more than its path once swallowed every route of an API
(ironic bug 2151134); and /healthcheck belongs to oslo.middleware, which Debian's nova has switched on.
"""

from __future__ import annotations

import logging
from typing import Final

from yaffle_health.errors import BadOption
from yaffle_health.groups import warn_of_unknown
from yaffle_health.http import Options, Request, Response, answer
from yaffle_health.http.answer import PATH, HealthOf
from yaffle_health.http.response import said
from yaffle_health.manager import Manager
from yaffle_health.views import Shape

NO_CACHE: Final = -1
NOT_TOLD: Final = "the health of this process cannot be told"
_LOG = logging.getLogger("yaffle_health")
TAKEN: Final = frozenset({"/", "/healthcheck"})
Source = Manager | HealthOf
"""A manager, or what gives the health of a group: `Workers.health`, for instance."""


class Owned:
    """Answers for one path with what a manager knows; BadOption for a path that is not ours."""

    def __init__(
        self,
        source: Source,
        *,
        path: str = PATH,
        ttl_s: int | None = None,
        cache_control: int | None = None,
        format: str = Shape.NOVA,  # noqa: A002 - the option's name
        group: str | None = None,
    ) -> None:
        """Options as those of the endpoint; `ttl_s` is the manager's own where it is not given."""
        self.path = _own(path)
        self._failed = False
        self._health_of = source.health if isinstance(source, Manager) else source
        if not callable(self._health_of):
            raise BadOption("source", source, "give a manager, or a function of a group's name")
        own_ttl_s = int(source.ttl_s) if isinstance(source, Manager) else 0
        if cache_control is None and ttl_s is None and not isinstance(source, Manager):
            # What tells about others is true for no known time.
            cache_control = NO_CACHE
        self._options = Options(
            ttl_s=own_ttl_s if ttl_s is None else ttl_s,
            cache_control=cache_control,
            format=_shape(format),
            group=group,
        )
        if isinstance(source, Manager):
            warn_of_unknown(source.groups, group=group)

    def respond(self, method: str, query: str, accept: str) -> Response:
        """Answer a request for the path, also where the source raises: with 500, and a log entry."""
        request = Request(method=method, path=PATH, query=query, accept=accept)
        try:
            response = answer(request, self._health_of, self._options)
        except Exception as error:  # noqa: BLE001 - the source's code: its words are not for whoever asks
            if not self._failed:
                _LOG.error("cannot tell the health", exc_info=error)
            self._failed = True
            return said(500, NOT_TOLD, head_only=method == "HEAD")
        self._failed = False
        return response


def headers(response: Response) -> list[tuple[str, str]]:
    """Return the headers of an answer as a web server wants them, its length among them."""
    length = [] if response.status == 204 else [("Content-Length", str(len(response.body)))]
    return [*response.headers, *length, ("X-Content-Type-Options", "nosniff")]


def _own(path: str) -> str:
    if not isinstance(path, str):
        raise BadOption("path", path, "give a text")
    if not path.startswith("/") or path.endswith("/") or any(c in path for c in "?#* "):
        why = "give one absolute path without a slash at its end"
        raise BadOption("path", path, "/ stays free for the service" if path == "/" else why)
    if path in TAKEN:
        raise BadOption("path", path, "that path is oslo.middleware's")
    return path


def _shape(name: str) -> Shape:
    try:
        return Shape(name)
    except ValueError:
        raise BadOption("format", name, f"use one of {', '.join(Shape)}") from None
