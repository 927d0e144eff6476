"""A Senlin that holds a few objects and serves them as the real one does: pages, headers, refusals."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PROJECT = "33e071d38fcc4fd099e0e09cedfe58f9"
USER = "36a6e079c9bc459c836e03d9e790fd98"
OWNER = {"project": PROJECT, "user": USER, "domain": None}
PAGE_MAX = 2
"""Some sites bound their pages below what is asked for."""


def ident(kind: str, number: int) -> str:
    """Return an id that says what it is."""
    return f"{kind}0000000-0000-4000-8000-{number:012d}"


def spec(kind: str, version: str, **properties: object) -> dict[str, object]:
    return {"type": kind, "version": version, "properties": properties}


LOCAL, STACK = ident("a", 1), ident("a", 2)
HEALTH, AFFINITY = ident("b", 1), ident("b", 2)
WEB, OLD = ident("c", 1), ident("c", 2)
OUT, QUEUE = ident("d", 1), ident("d", 2)


def objects(nodes: int = 3) -> dict[str, list[dict[str, Any]]]:
    """Return all lists, as the API of the real one shows them."""
    times = {"created_at": "2026-11-20T08:43:52Z", "updated_at": None}
    began = {"init_at": "2026-11-20T08:42:51Z", **times}
    profile = {**OWNER, **times, "metadata": {}}
    cluster = {
        **OWNER, **began, "min_size": 0, "max_size": -1, "desired_capacity": nodes, "timeout": 600,
        "status": "ACTIVE", "status_reason": "CLUSTER_CREATE: fine.", "metadata": {"team": "red"},
        "data": {}, "dependents": {}, "config": {"node.name.format": "web-$3I"}, "policies": [],
    }  # fmt: skip
    node: dict[str, Any] = {
        **OWNER, **began, "role": "", "status_reason": "", "data": {}, "metadata": {},
        "dependents": {}, "profile_id": LOCAL, "profile_name": "local", "cluster_id": WEB,
    }  # fmt: skip
    receiver = {
        **OWNER, **times, "cluster_id": WEB, "actor": {"trust_id": "cf63"}, "params": {"count": 1},
        "action": "CLUSTER_SCALE_OUT", "channel": {"alarm_url": "http://old:8777/v1/webhooks/x"},
    }  # fmt: skip
    local = spec("yaffle.local.process", "1.0", command=["sleep", "infinity"])
    modes = [{"type": "NODE_STATUS_POLLING"}]
    health = spec(
        "senlin.policy.health",
        "1.1",
        detection={"interval": 60, "detection_modes": modes},
        recovery={"actions": [{"name": "RECREATE"}]},
    )
    return {
        "profiles": [
            {**profile, "id": LOCAL, "name": "local", "type": "yaffle.local.process-1.0", "spec": local},
            {**profile, "id": STACK, "name": "stack", "type": "os.heat.stack-1.0",
             "spec": spec("os.heat.stack", "1.0", template="t")},
        ],
        "policies": [
            {**OWNER, **times, "id": HEALTH, "name": "heal", "type": "senlin.policy.health-1.1",
             "spec": health, "data": {}},
            {**OWNER, **times, "id": AFFINITY, "name": "apart", "data": {},
             "type": "senlin.policy.affinity-1.0", "spec": spec("senlin.policy.affinity", "1.0")},
        ],
        "clusters": [
            {**cluster, "id": WEB, "name": "web", "profile_id": LOCAL, "profile_name": "local"},
            {**cluster, "id": OLD, "name": "old", "profile_id": STACK, "profile_name": "stack"},
        ],
        "nodes": [
            {**node, "id": ident("e", n), "name": f"web-{n:03}", "index": n, "tainted": n == 2,
             "physical_id": f"local:{n}", "status": "CREATING" if n == 3 else "ACTIVE"}
            for n in range(1, nodes + 1)
        ],
        "receivers": [
            {**receiver, "id": OUT, "name": "out", "type": "webhook"},
            {**receiver, "id": QUEUE, "name": "queue", "type": "message"},
        ],
        "cluster_policies": [
            {"id": ident("f", n), "cluster_id": WEB, "cluster_name": "web", "policy_id": policy,
             "policy_name": "p", "policy_type": "t", "enabled": True, "priority": 600, "data": {},
             "last_op": None}
            for n, policy in ((1, HEALTH), (2, AFFINITY))
        ],
    }  # fmt: skip


@dataclass
class FakeSenlin:
    """One running server."""

    url: str
    headers: dict[str, str]
    """What a request has to have."""
    asked: list[str] = field(default_factory=list)


@contextmanager
def serving(
    lists: Mapping[str, list[dict[str, Any]]], headers: dict[str, str] | None = None
) -> Iterator[FakeSenlin]:
    """Serve the lists until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.asked.append(self.path)
            parts = urlsplit(self.path)
            query = {k: v[-1] for k, v in parse_qs(parts.query).items()}
            if any(self.headers.get(k) != v for k, v in fake.headers.items()):
                fault = {"code": 401, "title": "Unauthorized", "message": "Authenticate, please."}
                self.answer(401, {"error": fault})
                return
            assert self.headers["OpenStack-API-Version"] == "clustering 1.14"
            words = parts.path.split("/")[1:]
            if words[0] != "v1":
                self.answer(300, {"versions": []})
            elif len(words) == 2 and words[1] in lists:
                self.answer(200, {words[1]: page(words[1], query)})
            elif len(words) == 4 and words[3] == "policies" and not query:
                bound = lists["cluster_policies"]
                mine = [b for b in bound if b["cluster_id"] == words[2]]
                self.answer(200, {"cluster_policies": mine})
            else:
                self.answer(404, {"error": {"code": 404, "message": "Not found."}})

        def answer(self, status: int, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    def page(name: str, query: dict[str, str]) -> list[dict[str, Any]]:
        rows = lists[name]
        places = {row["id"]: place for place, row in enumerate(rows)}
        start = places.get(query.get("marker", ""), -1) + 1
        return rows[start : start + min(PAGE_MAX, int(query.get("limit", "1000")))]

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake = FakeSenlin(f"http://127.0.0.1:{server.server_address[1]}", headers or {})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
