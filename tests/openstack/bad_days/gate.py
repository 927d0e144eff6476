"""Between one Yaffle and the cloud: writes every request down, and breaks off at the chosen moment.

A test arms it with a request to wait for. When that comes, the gate springs: from then on all requests
hang, as on a network that has just died, until `open()` lets go of them; none that hung is ever passed
on. So an outage begins exactly before an act was asked for, or exactly between the act and its answer.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from lab.openstack import Lab

HANG_MAX_S: Final = 300.0
"""A test that fails leaves nobody hanging for longer."""
PASS_S: Final = 900.0
"""A service that hangs answers when it goes on again."""
TOKENS: Final = "/v3/auth/tokens"


class Cut(StrEnum):
    """Where the gate breaks off."""

    BEFORE = "before"
    """The request never arrives."""
    LATE = "late"
    """It hangs on its way, and is let through with the opening; its answer is lost."""
    UNANSWERED = "unanswered"
    """It arrives, and its answer is lost."""
    AFTER = "after"
    """It arrives and is answered; everything after it hangs."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """One request of Yaffle's, and what became of it."""

    at_s: float
    """Monotonic."""
    method: str
    path: str
    act: str
    """What a writing request asks for: `create`, `mark`, `forceDelete`, …; empty of others."""
    node: str
    """Id of the node that a new server is for; empty of others."""
    token: str = field(repr=False)
    status: int = 0
    """What the cloud answered; 0: it never got there, or nothing came back."""
    arrived: bool = False
    """Whether it was sent on to the cloud."""

    @property
    def writes(self) -> bool:
        """Whether it changes anything; to ask for a token does not."""
        return bool(self.act)

    @property
    def server(self) -> str:
        """The server that it is about; empty of others."""
        parts = self.path.split("/")
        return parts[3] if len(parts) > 3 and parts[2] == "servers" and parts[3] != "detail" else ""


Refusal = tuple[int, Mapping[str, object]]
"""Status and document of an answer that is not the cloud's own."""


@dataclass(slots=True)
class Gate:
    """One address in place of Keystone's and Nova's."""

    lab: Lab
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    made: dict[str, str] = field(default_factory=dict)
    """The node of every server that was made: Nova forgets the metadata of those that are deleted."""
    weather: Callable[[Seen], Refusal | None] = lambda _: None
    """What is answered in the cloud's place."""
    _waits_for: Callable[[Seen], bool] | None = None
    _cut: Cut = Cut.BEFORE
    _sprung: threading.Event = field(default_factory=threading.Event)
    _open: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def arm(self, cut: Cut, waits_for: Callable[[Seen], bool]) -> None:
        """Break off at the next request that `waits_for` says yes to."""
        with self._lock:
            self._open.clear()
            self._sprung.clear()
            self._cut, self._waits_for = cut, waits_for

    @property
    def sprung(self) -> bool:
        """Whether that request has come."""
        return self._sprung.is_set()

    def open(self) -> None:
        """Let go of all that hang, without an answer; whatever comes now is passed on."""
        with self._lock:
            self._waits_for = None
            self._open.set()

    def writes(self, since_s: float = 0.0, until_s: float = float("inf")) -> list[Seen]:
        """Return the requests of a stretch of time that were to change something."""
        return [s for s in list(self.seen) if s.writes and since_s <= s.at_s < until_s]

    def springs(self, seen: Seen) -> bool:
        """Note a request; say whether it is the awaited one. Hangs where that has come already."""
        with self._lock:
            self.seen.append(seen)
            if self._open.is_set() or self._waits_for is None:
                return False
            if not self._sprung.is_set():
                if not self._waits_for(seen):
                    return False
                self._sprung.set()
                return True
        self._open.wait(HANG_MAX_S)
        raise Hung

    @property
    def cut(self) -> Cut:
        """Where it breaks off."""
        return self._cut

    def hang(self) -> None:
        """Wait until it opens."""
        self._open.wait(HANG_MAX_S)


class Hung(Exception):
    """The request came after the gate had sprung: nobody answers it."""


def _act_of(method: str, path: str, body: bytes) -> tuple[str, str]:
    """Return what a request asks for, and for which node."""
    if method in {"GET", "HEAD"} or path.endswith(TOKENS):
        return "", ""
    words: dict[str, Any] = json.loads(body) if body else {}
    if path.endswith("/action"):
        return next(iter(words)), ""
    if path.endswith("/servers"):
        return "create", str(words["server"].get("metadata", {}).get("cluster_node_id", ""))
    if path.endswith("/metadata"):
        return "mark", ""
    return method, ""


def _handler(gate: Gate) -> type[BaseHTTPRequestHandler]:
    places = {"/v3": gate.lab.url("identity"), "/v2.1": gate.lab.url("compute")}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = urlsplit(self.path).path
            act, node = _act_of(self.command, path, body)
            token = self.headers.get("x-auth-token", "")
            seen = Seen(
                at_s=time.monotonic(),
                method=self.command,
                path=path,
                act=act,
                node=node,
                token=token,
            )
            # Who asked may have given up meanwhile, and so may the cloud.
            with suppress(OSError, HTTPException, Hung):
                self._handle(seen, body)
                return
            self.close_connection = True

        def _handle(self, seen: Seen, body: bytes) -> None:
            springs = gate.springs(seen)
            if springs and gate.cut in {Cut.BEFORE, Cut.LATE}:
                gate.hang()
                if gate.cut is Cut.LATE:
                    self._passed_on(seen, body)
                raise Hung
            told = gate.weather(seen)
            if told is not None:
                seen.status = told[0]
                content = json.dumps(told[1]).encode()
                self._answer(told[0], [("Content-Type", "application/json")], content)
                return
            status, headers, content = self._passed_on(seen, body)
            if springs and gate.cut is Cut.UNANSWERED:
                gate.hang()
                raise Hung
            seen.status = status
            self._answer(status, headers, content)

        def _passed_on(self, seen: Seen, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            place = next(url for start, url in places.items() if self.path.startswith(start))
            kept = {
                k: v for k, v in self.headers.items() if k.lower() not in {"host", "connection"}
            }
            connection = HTTPConnection(str(urlsplit(place).netloc), timeout=PASS_S)
            try:
                connection.connect()
                seen.arrived = True
                connection.request(self.command, self.path, body or None, kept)
                answer = connection.getresponse()
                content = answer.read()
                if seen.act == "create" and answer.status == 202:
                    gate.made[json.loads(content)["server"]["id"]] = seen.node
                return answer.status, answer.getheaders(), content
            finally:
                connection.close()

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in {"connection", "content-length", "transfer-encoding"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def standing(lab: Lab) -> Iterator[Gate]:
    """Stand before a lab's cloud."""
    gate = Gate(lab)
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(gate)) as server:
        server.daemon_threads = True
        gate.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield gate
        finally:
            gate.open()
            server.shutdown()
            thread.join(10)
