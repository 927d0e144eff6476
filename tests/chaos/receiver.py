"""A real webhook receiver that checks every signature, keeps every id, and can refuse some or all."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from yaffle.integrations.signing import BadSignature, verify

SECRET = "a secret of the chaos tests"


class News(NamedTuple):
    """What one message said of its incident."""

    incident: str
    sequence: int
    state: str


@dataclass
class Receiver:
    """What has arrived; `broken` answers 503 to everything, `refuses` to that share of it."""

    port: int = 0
    broken: bool = False
    refuses: float = 0.0
    accepted: dict[str, dict[str, Any]] = field(default_factory=dict)
    arrived_us: dict[str, int] = field(default_factory=dict)
    news: list[News] = field(default_factory=list)
    """What was accepted, in the order in which it first came: who gets it drops repeats."""
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


def overtaken(news: Iterable[News], incidents: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Each incident's news comes in its order, and the last word that came is its last word."""
    last: dict[str, News] = {}
    for one in news:
        before = last.get(one.incident)
        if before is not None and before.sequence >= one.sequence:
            yield f"incident {one.incident}: {one.sequence} came after {before.sequence}"
        last[one.incident] = one
    for row in incidents:
        one = last.get(row["id"])
        if one is not None and one.state != row["state"]:
            yield f"incident of {row['node_name']} is {row['state']}, the last word is {one.state}"


@contextlib.contextmanager
def receiving(host: str = "127.0.0.1", *, refuses: float = 0.0) -> Iterator[Receiver]:
    """Serve on a free port until the block ends."""
    state = Receiver(refuses=refuses)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            body = self.rfile.read(length)
            if len(body) < length:
                return  # the sender was killed amid its request
            refused = state.broken or random.random() < state.refuses
            status = 503 if refused else 204
            if refused:
                state.refused += 1
            else:
                try:
                    ident = verify(SECRET.encode(), dict(self.headers), body, now_s=time.time())
                    told = state.accepted[ident] = json.loads(body)
                    if ident not in state.arrived_us:
                        data = told["data"]
                        state.news.append(News(data["incident"], told["sequence"], data["state"]))
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
