"""A Keystone and a Nova on one loopback port, whose tokens are of one project each and can end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAME = "prod"
SERVICES = "token-of-the-service"


@dataclass
class FakeCloud:
    """Application credentials by id, each (secret, project); servers by id."""

    port: int = 0
    credentials: dict[str, tuple[str, str]] = field(default_factory=dict)
    roles: list[str] = field(default_factory=lambda: ["1"])
    """What a token of a person's says of them."""
    trusts: dict[str, str] = field(default_factory=dict)
    """Project by trust."""
    people: dict[str, tuple[str, str, bool]] = field(default_factory=dict)
    """(User, project, whether it may make trusts) by token."""
    made: list[dict[str, Any]] = field(default_factory=list)
    """Every trust that was asked for and made."""
    deletes: threading.Event = field(default_factory=threading.Event)
    """Until it is set, whoever wants a trust deleted waits."""
    together: threading.Barrier | None = None
    """Whoever wants a trust made waits for as many others who do."""
    deleted: list[tuple[str, str]] = field(default_factory=list)
    """(User, trust) of each that somebody was let delete."""
    by_itself: list[str] = field(default_factory=list)
    """Trusts that were deleted with a token that was given for themselves."""
    lame: set[str] = field(default_factory=set)
    """Trusts for which no token is given now: their users are disabled, or have lost a role."""
    keeps: str = ""
    """Why no trust is deleted, in Keystone's words; empty: they are."""
    servers: dict[str, dict[str, Any]] = field(default_factory=dict)
    tokens: dict[str, tuple[str, str]] = field(default_factory=dict)
    """(What it was got with, project) by token."""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """(Project, method, path) of all that Nova was asked with a token that counts."""
    seen: set[str] = field(default_factory=set)
    """Every token that was ever given out, but the service's own."""
    away: int = 0
    """Whatever stands before Keystone answers this to all who want a token; 0: Keystone does."""
    refuses: str = ""
    """What is said of a credential that is not accepted, in place of what Keystone says."""
    conflicts: bool = False
    """Every act on a server is refused (409) for what is being done to it."""
    logins: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, project: str, ident: str) -> str:
        """Let a server run in a project."""
        self.servers[ident] = {
            "id": ident, "name": ident, "status": "ACTIVE", "tenant_id": project, "metadata": {},
            "created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z",
            "flavor": {"id": "1", "original_name": "tiny"}, "image": {"id": ident},
            "OS-EXT-STS:power_state": 1, "OS-EXT-STS:task_state": None,
            "OS-SRV-USG:launched_at": "2026-01-01T00:00:00.000000",
        }  # fmt: skip
        return ident

    def revoke(self, ident: str) -> None:
        """Take back a credential, and every token that was got with it."""
        self.credentials.pop(ident, None)
        self.trusts.pop(ident, None)
        self.end_tokens(ident)

    def end_tokens(self, ident: str) -> None:
        """Let the tokens end that were got with a credential, as time does."""
        with self.lock:
            self.tokens = {t: of for t, of in self.tokens.items() if of[0] != ident}

    def clouds_yaml(self, path: Path) -> Path:
        """Write where it is, and who the service is there."""
        auth = {
            "auth_url": f"http://127.0.0.1:{self.port}/v3", "username": "yaffle",
            "password": "of the service", "project_name": "service",
            "user_domain_name": "Default", "project_domain_name": "Default",
        }  # fmt: skip
        path.write_text(json.dumps({"clouds": {NAME: {"auth": auth}}}))
        return path

    # --- answers -------------------------------------------------------------------------------

    def login(self, body: Any) -> tuple[int, Any, str]:
        with self.lock:
            self.logins += 1
            if self.away:
                return self.away, {"error": {"message": "no such page", "code": self.away}}, ""
            identity = body["auth"]["identity"]
            given = identity.get("application_credential")
            if (
                identity["methods"] == ["password"]
                and "OS-TRUST:trust" not in body["auth"]["scope"]
            ):
                return 201, self._token("service"), SERVICES
            if given is not None:
                secret, project = self.credentials.get(given["id"], ("", ""))
                ident, known = given["id"], bool(secret) and secret == given["secret"]
            else:
                ident = body["auth"].get("scope", {}).get("OS-TRUST:trust", {}).get("id", "")
                project, known = self.trusts.get(ident, ""), ident in self.trusts.keys() - self.lame
            if not known:
                # Word for word what a real one says.
                status, said = 401, "The request you have made requires authentication."
                if given is not None and ident not in self.credentials:
                    status, said = 404, f"Could not find Application Credential: {ident}."
                if self.refuses:
                    status, said = 401, self.refuses
                return status, {"error": {"message": said, "code": status}}, ""
            token = f"token-{len(self.tokens)}-{self.logins}"
            self.tokens[token] = (ident, project)
            self.seen.add(token)
            return 201, self._token(project), token

    def keystone(self, method: str, path: str, token: str, body: Any) -> tuple[int, Any]:
        with self.lock:
            user, project, may_trust = self.people.get(token, ("", "", False))
            through = self.tokens.get(token, ("", ""))[0]
            if token == SERVICES:
                user = "user-service"
            elif through in self.trusts:
                user, project = self.trustor(through), self.trusts[through]
            if not user:
                return 401, {"error": {"message": "no such token", "code": 401, "title": "U"}}
            if method in {"GET", "DELETE"} and path.startswith("/OS-TRUST/trusts/"):
                ident = path.rpartition("/")[2]
                if ident in self.trusts and user not in self._may(method, ident):
                    told = "You are not authorized to perform the requested action."
                    return 403, {"error": {"message": told, "code": 403, "title": "Forbidden"}}
                if method == "GET" and ident in self.trusts:
                    return 200, {"trust": {"id": ident}}
            if (method, path) == ("GET", "/auth/tokens"):
                return 200, {"token": {"roles": [{"id": i, "name": i} for i in self.roles]}}
            if path.startswith("/OS-TRUST/trusts/"):
                return self._deleted(user, path.rpartition("/")[2], through)
            if not may_trust:
                told = "Using method 'application_credential' is not allowed for managing trusts."
                return 403, {"error": {"message": told, "code": 403, "title": "Forbidden"}}
            if (method, path) == ("GET", "/OS-TRUST/trusts"):
                idents = [i for i in self.trusts if i.startswith("trust-")]
                mine = [self._listed(i) for i in idents if self.trustor(i) == user]
                return 200, {"trusts": mine}
            ident = f"trust-{len(self.made) + 1}"
            self.made.append(body["trust"])
            self.trusts[ident] = project
            return 201, {"trust": {**body["trust"], "id": ident}}

    def trustor(self, ident: str) -> str:
        """Return who has made a trust; they are numbered as they were made."""
        return str(self.made[int(ident.rpartition("-")[2]) - 1]["trustor_user_id"])

    def _listed(self, ident: str) -> dict[str, Any]:
        """Return a trust as a list shows it: with what it was given besides, and without its roles."""
        made = dict(self.made[int(ident.rpartition("-")[2]) - 1])
        made.pop("roles")
        return {**made, "id": ident, "expires_at": None, "deleted_at": None}

    def _may(self, method: str, ident: str) -> set[str]:
        """Return who may look at a trust, or delete it."""
        return {self.trustor(ident)} | ({"user-service"} if method == "GET" else set())

    def _deleted(self, user: str, ident: str, through: str) -> tuple[int, Any]:
        if self.keeps:
            return 403, {"error": {"message": self.keeps, "code": 403, "title": "Forbidden"}}
        known = self.trusts.pop(ident, None) is not None
        if known or user != "user-service":
            self.deleted.append((user, ident))
        if known and through == ident:
            self.by_itself.append(ident)
        if not known:
            told = f"Could not find trust: {ident}."
            return 404, {"error": {"message": told, "code": 404, "title": "Not Found"}}
        return 204, None

    def nova(self, token: str, method: str, path: str) -> tuple[int, Any]:
        with self.lock:
            _, project = self.tokens.get(token, ("", ""))
            if not project:
                return 401, {
                    "error": {"message": "The request you have made requires", "code": 401}
                }
            self.asked.append((project, method, path))
            mine = {i: s for i, s in self.servers.items() if s["tenant_id"] == project}
            if path == "/servers/detail":
                return 200, {"servers": list(mine.values())}
            server = mine.get(path.removeprefix("/servers/").partition("/")[0])
            if method == "GET" and server is not None and path.count("/") == 2:
                return 200, {"server": server}
            if server is not None and path.endswith("/os-instance-actions"):
                return 200, {"instanceActions": []}
            if method == "POST" and server is not None and self.conflicts:
                told = (
                    f"Cannot do that while instance {server['id']} is in task_state image_uploading"
                )
                return 409, {"conflictingRequest": {"message": told, "code": 409}}
            if method == "POST" and server is not None:
                return 202, {"metadata": {}}
            return 404, {"itemNotFound": {"message": "no such thing", "code": 404}}

    def _token(self, project: str) -> Any:
        endpoint = {
            "id": "e", "interface": "public", "region": "R", "region_id": "R",
            "url": f"http://127.0.0.1:{self.port}/v2.1",
        }  # fmt: skip
        domain = {"id": "d", "name": "Default"}
        return {
            "token": {
                "methods": ["application_credential"], "audit_ids": ["a"],
                "expires_at": "2099-01-01T00:00:00.000000Z",
                "issued_at": "2020-01-01T00:00:00.000000Z",
                "user": {"id": f"user-{project}", "name": "u", "domain": domain},
                "project": {"id": project, "name": project, "domain": domain},
                "roles": [{"id": "1", "name": "member"}],
                "catalog": [
                    {"id": "s", "type": "compute", "name": "nova", "endpoints": [endpoint]}
                ],
            }
        }  # fmt: skip


def _handler(cloud: FakeCloud) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            given = self.rfile.read(length)
            path, subject = self.path.partition("?")[0], ""
            token = self.headers.get("X-Auth-Token") or ""
            if path == "/v3/auth/tokens" and self.command == "POST":
                status, document, subject = cloud.login(json.loads(given))
            elif path.rstrip("/") == "/v3":
                links = [{"rel": "self", "href": f"http://127.0.0.1:{cloud.port}/v3/"}]
                status, document = 200, {
                    "version": {"id": "v3.14", "status": "stable", "links": links}
                }  # fmt: skip
            elif path.startswith("/v3/"):
                asked = json.loads(given) if given else None
                if self.command == "DELETE":
                    cloud.deletes.wait(60)
                if self.command == "POST" and cloud.together is not None:
                    cloud.together.wait(60)
                status, document = cloud.keystone(
                    self.command, path.removeprefix("/v3"), token, asked
                )
            else:
                status, document = cloud.nova(token, self.command, path.removeprefix("/v2.1"))
            body = b"" if document is None else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if subject:
                self.send_header("X-Subject-Token", subject)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def served() -> Iterator[FakeCloud]:
    """Serve a cloud until the block is left."""
    cloud = FakeCloud()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(cloud))
    cloud.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield cloud
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
