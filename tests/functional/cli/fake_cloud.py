"""A Keystone and a Nova on one loopback port that take everything they are asked, and write it down.

What would change something is granted, too: so a watch that sent it would be found out, not saved
by the cloud's refusal.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

PROJECT, READER, OWNER = "p" * 32, "r" * 32, "o" * 32


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class FakeCloud:
    """Servers by id; every request is in `asked` as (method, path, query)."""

    port: int = 0
    servers: dict[str, dict[str, Any]] = field(default_factory=dict)
    gone: dict[str, dict[str, Any]] = field(default_factory=dict)
    acts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    status: int = 0
    """Answered to all that Nova is asked; 0: it works."""
    keystone_away: bool = False
    """Nobody is given a token."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, **more: Any) -> str:
        """Start a server."""
        with self.lock:
            number = len(self.servers) + len(self.gone) + 1
            ident = f"{number:08x}-0000-4000-8000-000000000000"
            self.servers[ident] = {
                "id": ident, "name": name, "status": "ACTIVE", "created": _now(), "updated": _now(),
                "tenant_id": PROJECT, "metadata": {}, "OS-EXT-STS:power_state": 1,
                "OS-EXT-STS:task_state": None, "OS-SRV-USG:launched_at": _now(),
                "OS-EXT-AZ:availability_zone": "nova", **more,
            }  # fmt: skip
            self.acts[ident] = [_act("create", OWNER)]
            return ident

    def turn(self, ident: str, status: str, power: int, *, act: str = "", by: str = OWNER) -> None:
        """Let a server be in another state; `act` by a user says why, none: it just happened."""
        with self.lock:
            self.servers[ident] |= {
                "status": status, "OS-EXT-STS:power_state": power, "updated": _now(),
            }  # fmt: skip
            if act:
                self.acts[ident].insert(0, _act(act, by))

    def delete(self, ident: str, *, by: str = "") -> None:
        """Take a server away; `by` nobody: nothing tells who it was."""
        with self.lock:
            self.gone[ident] = {**self.servers.pop(ident), "status": "DELETED", "updated": _now()}
            if by:
                self.acts[ident].insert(0, _act("delete", by))

    @property
    def lists(self) -> int:
        """How many times the list of servers was asked for."""
        return sum(path.endswith("/servers/detail") for _, path, _ in self.asked)

    @property
    def writes(self) -> list[tuple[str, str, str]]:
        """Everything that was sent and is no question, nor one for a token."""
        return [
            one
            for one in self.asked
            if one[0] not in {"GET", "HEAD"} and one[:2] != ("POST", "/v3/auth/tokens")
        ]

    def clouds_yaml(self, path: Path, *, port: int = 0, **more: str) -> Path:
        """Write how it is reached; `more` is of the cloud's section."""
        auth = {
            "auth_url": f"http://127.0.0.1:{port or self.port}/v3", "username": "reader",
            "password": "secret", "project_name": "shop", "user_domain_name": "Default",
            "project_domain_name": "Default",
        }  # fmt: skip
        path.write_text(json.dumps({"clouds": {"prod": {"auth": auth, **more}}}))
        return path

    # --- answers -------------------------------------------------------------------------------

    def answer(self, method: str, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path in {"/v3", "/v3/"}:
            links = [{"rel": "self", "href": f"http://127.0.0.1:{self.port}/v3/"}]
            return 200, {"version": {"id": "v3.14", "status": "stable", "links": links}}
        if path == "/v3/auth/tokens":
            if self.keystone_away:
                return 503, {"error": {"message": "down for maintenance", "code": 503}}
            return 201, self._token()
        if self.status:
            return self.status, {"error": {"message": "out of order", "code": self.status}}
        if method != "GET":
            return 202, {}
        with self.lock:
            return self._nova(path.removeprefix("/v2.1"), query)

    def _nova(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path == "/servers/detail":
            found = list(self.servers.values())
            if since := query.get("changes-since"):
                found = [s for s in (*found, *self.gone.values()) if s["updated"] >= since[0]]
            return 200, {"servers": found}
        if path in {"/os-services", "/os-server-groups"}:
            return 403, {"forbidden": {"message": f"Policy doesn't allow {path}", "code": 403}}
        if (found := re.fullmatch(r"/servers/([^/]+)", path)) and found[1] in self.servers:
            return 200, {"server": self.servers[found[1]]}
        if found := re.fullmatch(r"/servers/([^/]+)/os-instance-actions", path):
            return 200, {"instanceActions": self.acts.get(found[1], [])}
        return 404, {"itemNotFound": {"message": "no such thing", "code": 404}}

    def _token(self) -> Any:
        endpoint = {
            "id": "e", "interface": "public", "region": "R", "region_id": "R",
            "url": f"http://127.0.0.1:{self.port}/v2.1",
        }  # fmt: skip
        return {
            "token": {
                "methods": ["password"], "expires_at": "2099-01-01T00:00:00.000000Z",
                "issued_at": "2020-01-01T00:00:00.000000Z", "audit_ids": ["a"],
                "user": {"id": READER, "name": "reader", "domain": {"id": "d", "name": "Default"}},
                "project": {"id": PROJECT, "name": "shop", "domain": {"id": "d", "name": "Default"}},
                "roles": [{"id": "1", "name": "reader"}],
                "catalog": [
                    {"id": "s", "type": "compute", "name": "nova", "endpoints": [endpoint]}
                ],
            }
        }  # fmt: skip


def _act(action: str, user: str) -> dict[str, Any]:
    return {
        "action": action, "request_id": f"req-{action}", "user_id": user, "start_time": _now(),
        "message": None,
    }  # fmt: skip


def _handler(cloud: FakeCloud) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("content-length") or 0)
            self.rfile.read(length)
            cloud.asked.append((self.command, parts.path, parts.query))
            status, document = cloud.answer(self.command, parts.path, parse_qs(parts.query))
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Openstack-Request-Id", "req-answer")
            if parts.path == "/v3/auth/tokens":
                self.send_header("X-Subject-Token", "t")
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def served(port: int = 0, cloud: FakeCloud | None = None) -> Iterator[FakeCloud]:
    """Serve a cloud, on a free port unless one is named."""
    found = cloud or FakeCloud()
    with ThreadingHTTPServer(("127.0.0.1", port), _handler(found)) as server:
        server.daemon_threads = True
        found.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join(10)
