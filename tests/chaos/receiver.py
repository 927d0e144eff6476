"""A real webhook receiver that checks every signature, keeps every id, and can be out of order."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from yaffle.clouds.signing import BadSignature, verify

SECRET = "a secret of the chaos tests"


@dataclass
class Receiver:
    """What has arrived; `broken` answers 503 to everything."""

    port: int = 0
    broken: bool = False
    accepted: dict[str, dict[str, object]] = field(default_factory=dict)
    arrived_us: dict[str, int] = field(default_factory=dict)
    forged: list[str] = field(default_factory=list)
    refused: int = 0

    @property
    def settings(self) -> dict[str, object]:
        """The notifier's section."""
        return {
            "type": "webhook",
            "url": self.url(),
            "secret": SECRET,
            "timeout": 3,
        }

    def url(self, host: str = "127.0.0.1") -> str:
        """Return where to send to."""
        return f"http://{host}:{self.port}/hook"


@contextlib.contextmanager
def receiving(host: str = "127.0.0.1") -> Iterator[Receiver]:
    """Serve on a free port until the block ends."""
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status = 503 if state.broken else 204
            if state.broken:
                state.refused += 1
            else:
                try:
                    ident = verify(SECRET.encode(), dict(self.headers), body, now_s=time.time())
                    state.accepted[ident] = json.loads(body)
                    state.arrived_us.setdefault(ident, time.time_ns() // 1000)
                except BadSignature as error:
                    state.forged.append(str(error))
                    status = 400
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: object, client_address: object) -> None:
            pass

    server = Server((host, 0), Handler)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
