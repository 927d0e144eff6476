"""Speaks to the clustering API as its clients do, and checks what every answer must have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from tests.functional.api.live import Live
from tests.waiting import wait_until

HTML = "text/html"
NEWEST = "1.14"
SLEEPER = {
    "type": "yaffle.local.process",
    "version": "1.0",
    "properties": {
        "command": ["python3", "-c", "import signal; signal.pause()", "{node_id}"],
        "stop_timeout": 20,
    },
}


@dataclass(frozen=True, kw_only=True)
class Senlin:
    """One running server."""

    live: Live

    def ask(
        self, method: str, path: str, body: object = None, *, version: str | None = NEWEST
    ) -> httpx.Response:
        """Ask below `/v1`; the version goes into the header."""
        headers = {} if version is None else {"OpenStack-API-Version": f"clustering {version}"}
        with self.live.client(headers) as client:
            answer = client.request(method, f"/v1{path}", json=body)
        assert answer.headers["X-Openstack-Request-Id"].startswith("req-")
        return answer

    def call(self, method: str, path: str, body: object = None, *, want: int = 200) -> Any:
        """Ask for something that has to work; return the JSON."""
        answer = self.ask(method, path, body)
        assert answer.status_code == want, answer.text
        assert answer.headers["OpenStack-API-Version"] == f"clustering {NEWEST}"
        assert answer.headers["Vary"] == "OpenStack-API-Version"
        if want == 204:
            assert answer.content == b""
            return None
        assert answer.headers["Content-Type"] == "application/json"
        return answer.json()

    def started(self, method: str, path: str, body: object = None) -> tuple[str, Any]:
        """Ask for something that takes an action; return the action's id and the JSON."""
        answer = self.ask(method, path, body)
        assert answer.status_code == 202, answer.text
        begin, _, ident = answer.headers["Location"].rpartition("/")
        assert begin == f"http://{self.live.address}/v1/actions"
        return ident, answer.json()

    def until(self, path: str, holds: Callable[[Any], object], *, within_s: float = 60.0) -> Any:
        """Ask again and again until the answer satisfies `holds`."""
        return wait_until(lambda: self.call("GET", path), holds, within_s=within_s, why=path)

    def ended(self, action: str, *, status: str = "SUCCEEDED") -> Any:
        """Wait for an action's end; return it."""
        open_ = {"INIT", "WAITING", "READY", "RUNNING", "WAITING_LIFECYCLE_COMPLETION"}
        found = self.until(
            f"/actions/{action}", lambda answer: answer["action"]["status"] not in open_
        )["action"]
        assert found["status"] == status, found
        return found

    def done(self, method: str, path: str, body: object = None) -> Any:
        """Ask for something that takes an action, and wait for its good end; return the JSON."""
        ident, told = self.started(method, path, body)
        self.ended(ident)
        return told

    def profile(self, name: str) -> str:
        """Create a profile of sleeping processes; return its id."""
        body = {"profile": {"name": name, "spec": SLEEPER}}
        return str(self.call("POST", "/profiles", body, want=201)["profile"]["id"])

    def refused(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        want: int = 400,
        version: str | None = NEWEST,
    ) -> tuple[str, str]:
        """Ask for something that must not work; return type and message."""
        answer = self.ask(method, path, body, version=version)
        assert answer.status_code == want, answer.text
        assert "OpenStack-API-Version" not in answer.headers
        told = answer.json()
        assert set(told) == {"code", "title", "explanation", "error"}
        assert told["code"] == told["error"]["code"] == want
        return told["error"]["type"], told["error"]["message"]
