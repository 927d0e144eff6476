"""A small Keystone: a version document, tokens for the service user, and what other tokens are worth.

Its failures are built in: it may be away, hang, or no longer know the service user. What the real one
does is tested in tests/openstack.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PASSWORD = "the service user's own"
WELL, AWAY, HANGING, STRANGER = "well", "away", "hanging", "service user unknown"
HOUR_S = 3600.0


class Keystone:
    """The state: whom it knows, how it behaves, what it was asked."""

    def __init__(self) -> None:
        self.manner = WELL
        self.tokens: dict[str, dict[str, Any]] = {}
        self.validated: list[str] = []
        self.goes_on = threading.Event()
        self._ours: set[str] = set()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        """What `auth_url` has to be."""
        return f"http://127.0.0.1:{self.server.server_address[1]}/v3"

    def token(
        self,
        *roles: str,
        user: str = "u1",
        project: str | None = "p1",
        lives_s: float = HOUR_S,
    ) -> str:
        """Give somebody a token."""
        token = f"gAAAA{uuid.uuid4().hex}"
        expires = datetime.now(UTC) + timedelta(seconds=lives_s)
        self.tokens[token] = _body(user, project, roles, expires)
        return token

    def service_token(self, asked: Any) -> tuple[str, dict[str, Any]] | None:
        """Return a token for our own user; None where the password is wrong."""
        said = asked["auth"]["identity"]["password"]["user"]["password"]
        if said != PASSWORD or self.manner == STRANGER:
            return None
        token = f"ours{uuid.uuid4().hex}"
        self._ours.add(token)
        here = [{"interface": i, "region": "R", "url": self.url} for i in ("public", "internal")]
        body = _body("yaffle", "service", ["admin"], datetime.now(UTC) + timedelta(hours=1))
        body["token"]["catalog"] = [{"type": "identity", "name": "keystone", "endpoints": here}]
        return token, body

    def knows_us(self, token: str) -> bool:
        """Whether that is a token of the service user's."""
        return self.manner != STRANGER and token in self._ours


def _body(
    user: str, project: str | None, roles: Sequence[str], expires: datetime
) -> dict[str, Any]:
    domain = {"id": "default", "name": "Default"}
    token: dict[str, Any] = {
        "methods": ["password"],
        "user": {"id": user, "name": f"name of {user}", "domain": domain},
        "issued_at": "2026-01-01T00:00:00.000000Z",
        "expires_at": expires.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "audit_ids": ["x"],
    }
    if project is not None:
        token["project"] = {"id": project, "name": f"name of {project}", "domain": domain}
        token["roles"] = [{"id": role, "name": role} for role in roles]
        token["catalog"] = []
    return {"token": token}


def _handler(state: Keystone) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if self._misbehaves():
                return
            if self.path.rstrip("/") == "/v3":
                links = [{"rel": "self", "href": state.url}]
                version = {"id": "v3.14", "status": "stable", "links": links, "media-types": []}
                self._say(200, {"version": version})
                return
            token = self.headers.get("X-Subject-Token", "")
            if not state.knows_us(self.headers.get("X-Auth-Token", "")):
                self._say(401, {"error": {"code": 401, "message": "who are you"}})
                return
            state.validated.append(token)
            known = state.tokens.get(token)
            if known is None:
                self._say(404, {"error": {"code": 404, "message": "no such token"}})
            else:
                self._say(200, known)

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self._misbehaves():
                return
            made = state.service_token(asked)
            if made is None:
                self._say(401, {"error": {"code": 401, "message": "wrong password"}})
            else:
                self._say(201, made[1], {"X-Subject-Token": made[0]})

        def _misbehaves(self) -> bool:
            if state.manner == HANGING:
                state.goes_on.wait(60)
            if state.manner == AWAY:
                self._say(503, {"error": {"code": 503, "message": "down for maintenance"}})
            return state.manner == AWAY

        def _say(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


@contextmanager
def keystone() -> Iterator[Keystone]:
    """Run one until the block ends."""
    state = Keystone()
    thread = threading.Thread(target=state.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.goes_on.set()
        state.server.shutdown()
        state.server.server_close()
        thread.join()
