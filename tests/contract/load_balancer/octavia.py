"""A Keystone that lets everybody in, and an Octavia that gives the answers of a real one, as recorded.

The records are of Octavia 19.0 in the lab: `recorded/octavia.json`, by what they are answers to.
`tests/openstack/octavia` asks a real one.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

RECORDED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "recorded" / "octavia.json").read_text()
)
POOL = RECORDED["members"]["path"].split("/")[4]


@dataclass
class Cloud:
    """What it answers may be changed while it runs."""

    port: int = 0
    members: list[dict[str, Any]] = field(
        default_factory=lambda: copy.deepcopy(RECORDED["members"]["body"]["members"])
    )
    page: int = 1000
    """Octavia's own bound for one answer."""
    pools: int = 1
    """How many there are of the name `web`."""
    status: int = 0
    """Answered to everything that Octavia is asked; 0: it works."""
    asked: list[str] = field(default_factory=list)
    others: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """More pools, by id."""
    queries: list[dict[str, list[str]]] = field(default_factory=list)
    """Asked of the list of pools."""
    hangs: threading.Event | None = None

    def settings(self, folder: Path, **more: object) -> dict[str, object]:
        """Write a clouds.yaml; return the section of a balancer."""
        auth = {
            "auth_url": f"http://127.0.0.1:{self.port}/v3", "username": "reader",
            "password": "secret", "project_name": "shop", "user_domain_name": "Default",
            "project_domain_name": "Default",
        }  # fmt: skip
        file = folder / "clouds.yaml"
        file.write_text(json.dumps({"clouds": {"prod": {"auth": auth}}}))
        return {"type": "octavia", "cloud": "prod", "clouds_file": str(file), **more}

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path.startswith("/v3"):
            return self._keystone(path)
        self.asked.append(path)
        if self.hangs is not None:
            self.hangs.wait(120)
        if self.status:
            return self.status, {"faultstring": "out of order", "faultcode": "Server"}
        if path == "/v2/lbaas/pools":
            self.queries.append(query)
            return self._pools(query["name"][0]) if "name" in query else self._all_pools()
        if path == f"/v2/lbaas/pools/{POOL}/members":
            return 200, self._page(int(query["limit"][0]), query.get("marker", [""])[0])
        for ident, members in self.others.items():
            if path == f"/v2/lbaas/pools/{ident}/members":
                return 200, {"members": members, "members_links": []}
        return RECORDED["no pool"]["status"], RECORDED["no pool"]["body"]

    def _pools(self, name: str) -> tuple[int, Any]:
        found = RECORDED["pools" if name == "web" else "no pools"]["body"]
        return 200, {**found, "pools": found["pools"] * self.pools}

    def _all_pools(self) -> tuple[int, Any]:
        (web,) = RECORDED["pools"]["body"]["pools"]
        shown = {POOL: self.members, **self.others} if self.pools else self.others
        found = [
            {**web, "id": ident, "members": [{"id": one["id"]} for one in members]}
            for ident, members in shown.items()
        ]
        return 200, {"pools": found, "pools_links": []}

    def _page(self, limit: int, marker: str) -> Any:
        places = [n for n, one in enumerate(self.members, 1) if one["id"] == marker]
        first = places[0] if places else 0
        last = first + min(limit, self.page)
        links = RECORDED["first page"]["body"]["members_links"]
        more = links if last < len(self.members) else []
        return {"members": self.members[first:last], "members_links": more}

    def _keystone(self, path: str) -> tuple[int, Any]:
        here = f"http://127.0.0.1:{self.port}"
        if path != "/v3/auth/tokens":
            links = [{"rel": "self", "href": f"{here}/v3/"}]
            return 200, {"version": {"id": "v3.14", "status": "stable", "links": links}}
        place = {"interface": "public", "region_id": "R", "region": "R", "url": here, "id": "e"}
        service = {"type": "load-balancer", "name": "octavia", "id": "s", "endpoints": [place]}
        token = {
            "methods": ["password"], "expires_at": "2099-01-01T00:00:00.000000Z",
            "issued_at": "2026-01-01T00:00:00.000000Z", "catalog": [service],
            "user": {"id": "u", "name": "reader", "domain": {"id": "default", "name": "Default"}},
            "project": {"id": "p", "name": "shop", "domain": {"id": "default", "name": "Default"}},
            "roles": [{"id": "r", "name": "reader"}],
        }  # fmt: skip
        return 201, {"token": token}


@contextmanager
def octavia() -> Iterator[Cloud]:
    """Serve one on a free loopback port."""
    cloud = Cloud()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            return

        def _serve(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            status, document = cloud.answer(parts.path, parse_qs(parts.query))
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Subject-Token", "a-token")
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _serve  # noqa: N815

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        cloud.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield cloud
        finally:
            if cloud.hangs is not None:
                cloud.hangs.set()
            server.shutdown()
            thread.join()
