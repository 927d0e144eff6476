"""A node of the demo: one page, and its health as any service would embed it. Never imported.

Run as `python -I page.py NAME PORT`. It knows yaffle-health and nothing of Yaffle: `/` is a page,
`/health` says how it is, and both bear the pid in a header, so that a new copy can be told apart.
"""

from __future__ import annotations

import html
import os
import sys
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import yaffle_health
from yaffle_health.wsgi import HealthApp

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

PAGE = """<!doctype html><meta charset="utf-8"><title>{name}</title>
<h1>{name}</h1><p>process {pid}, port {port}</p>
<p>Kill it and watch: <code>kill -9 {pid}</code></p>
"""
TEXT = "text/plain; charset=utf-8"


class Server(ThreadingMixIn, WSGIServer):
    """Threads, so that a slow visitor does not look like a failure."""

    daemon_threads = True
    # A node that is built again takes the port of the one before it.
    allow_reuse_address = True


class Handler(WSGIRequestHandler):
    """Silent: two checks a second would fill the log. Nobody may keep a thread for ever."""

    timeout = 10

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@yaffle_health.healthcheck("page")
def page() -> str:
    """Return what visitors see; whatever it raises shows in /health."""
    return PAGE.format(name=html.escape(NAME), pid=os.getpid(), port=PORT)


def site(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer everything but /health."""
    found = environ["PATH_INFO"] == "/"
    body = (page() if found else "there is / and /health\n").encode()
    kind = "text/html; charset=utf-8" if found else TEXT
    start_response(
        "200 OK" if found else "404 Not Found",
        [("Content-Type", kind), ("Content-Length", str(len(body)))],
    )
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


def signed(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with the pid in a header."""

    def start(status: str, headers: list[tuple[str, str]], *more: object) -> object:
        return start_response(status, [*headers, ("X-Pid", str(os.getpid()))], *more)  # type: ignore[arg-type]

    return APP(environ, start)


if __name__ == "__main__":
    NAME, PORT = sys.argv[1], int(sys.argv[2])
    manager = yaffle_health.Manager(service_id=NAME, description="demo page", ttl_s=0)
    yaffle_health.set_default(manager)
    APP = HealthApp(site, source=manager)
    page()
    print(f"{NAME}: process {os.getpid()} listens on 127.0.0.1:{PORT}", flush=True)
    with make_server(
        "127.0.0.1", PORT, signed, server_class=Server, handler_class=Handler
    ) as server:
        server.serve_forever()
