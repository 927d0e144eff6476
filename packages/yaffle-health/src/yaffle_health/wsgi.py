"""/health inside a WSGI service (Flask, Pecan, Django, bare): an app, or a wrapper around one.

It answers with the state of the process that the server happened to choose; behind a prefork server
give it `Workers(directory).health`, and it answers for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from yaffle_health.http.response import REASONS
from yaffle_health.owned import Owned, Source, headers
from yaffle_health.views import Shape

# WSGI's own words (PEP 3333): an environ holds whatever the server puts there.
Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


class HealthApp:
    """Answer /health; pass everything else to `app`, or say 404 where there is none."""

    def __init__(
        self,
        app: App | None = None,
        *,
        source: Source,
        path: str = "/health",
        ttl_s: int | None = None,
        cache_control: int | None = None,
        format: str = Shape.NOVA,  # noqa: A002 - the option's name
        group: str | None = None,
    ) -> None:
        """Take the endpoint's options; BadOption for a value or a path that cannot be ours."""
        self._app = app
        self._owned = Owned(
            source,
            path=path,
            ttl_s=ttl_s,
            cache_control=cache_control,
            format=format,
            group=group,
        )

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Be a WSGI application."""
        if not self._is_ours(environ):
            if self._app is not None:
                return self._app(environ, start_response)
            start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"only the health endpoint is here\n"]
        response = self._owned.respond(
            environ.get("REQUEST_METHOD", "GET"),
            environ.get("QUERY_STRING", ""),
            environ.get("HTTP_ACCEPT", ""),
        )
        start_response(f"{response.status} {REASONS[response.status]}", headers(response))
        return [] if response.head_only else [response.body]

    def _is_ours(self, environ: Environ) -> bool:
        path = environ.get("PATH_INFO", "")
        if self._app is None:
            # Alone it may be mounted as a dispatcher does it, with the path as the prefix.
            return self._owned.path in {path, environ.get("SCRIPT_NAME", "") + path}
        # Around a service that is itself mounted at /health, the prefix is the service's, not ours.
        return bool(path == self._owned.path)
