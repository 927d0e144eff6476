"""A node as anybody might have written it: a page and its health. Run as `python -I -S`, never imported.

Knows nothing of Yaffle, as any program that is watched: it answers `/` with a page, `/health` with
`application/health+json`, and both with its pid in a header, so that a new copy can be told apart.
"""

from __future__ import annotations

import html
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = """<!doctype html><meta charset="utf-8"><title>{name}</title>
<h1>{name}</h1><p>process {pid}, port {port}</p>
<p>Kill it and watch: <code>kill -9 {pid}</code></p>
"""


class Handler(BaseHTTPRequestHandler):
    """Answers two paths."""

    protocol_version = "HTTP/1.1"
    timeout = 10

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/health":
            body = {"status": "pass", "serviceId": NAME, "notes": [f"pid {os.getpid()}"]}
            self.answer(200, "application/health+json", json.dumps(body))
        elif path == "/":
            page = PAGE.format(name=html.escape(NAME), pid=os.getpid(), port=PORT)
            self.answer(200, "text/html; charset=utf-8", page)
        else:
            self.answer(404, "text/plain; charset=utf-8", "there is / and /health\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Pid", str(os.getpid()))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Be silent: two checks a second would fill the log."""


class Server(ThreadingHTTPServer):
    """Threads, so that a slow visitor does not look like a failure."""

    daemon_threads = True
    # A node that is built again takes the port of the one before it.
    allow_reuse_address = True


if __name__ == "__main__":
    NAME, PORT = sys.argv[1], int(sys.argv[2])
    print(f"{NAME}: process {os.getpid()} listens on 127.0.0.1:{PORT}", flush=True)
    with Server(("127.0.0.1", PORT), Handler) as server:
        server.serve_forever()
