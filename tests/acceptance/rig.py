"""A real `yaffle serve` and a raw client: the acceptance tests know the wire and nothing else.

Nothing of the product is imported here. What a test asked, and what came back, is kept and shown
when the test fails.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
from tests.waiting import wait_for, wait_until

ABSENT: Final = object()
"""No body at all, which is something else than the body `null`."""
NEWEST: Final = "1.14"
VERSION_HEADER: Final = "OpenStack-API-Version"
UNFINISHED: Final = {"INIT", "WAITING", "READY", "RUNNING", "WAITING_LIFECYCLE_COMPLETION"}
EXPLANATIONS: Final = {
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    406: "Not Acceptable",
    409: "Conflict",
}
UNLIMITED: Final = {"max_in_flight": 1000, "burst": 100_000, "per_hour": 1_000_000}


@dataclass(frozen=True, slots=True)
class Answer:
    """One exchange: what was asked, what came back, how long it took."""

    asked: str
    status: int
    headers: httpx.Headers
    text: str
    took_s: float

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]

    def __str__(self) -> str:
        told = {k: v for k, v in self.headers.items() if k in {"location", "openstack-api-version"}}
        return f"{self.asked}\n  {self.status} {self.kind} {told}\n  {self.text[:1500]}"


@dataclass
class Api:
    """Ask the clustering API; paths are below `/v1/` unless they start with a slash."""

    root: str
    version: str | None = NEWEST
    exchanges: list[Answer] = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.http = httpx.Client(
            base_url=self.root, timeout=60, verify=False, follow_redirects=False, trust_env=False
        )

    def close(self) -> None:
        self.http.close()

    def ask(
        self,
        method: str,
        path: str,
        body: object = ABSENT,
        *,
        want: int | tuple[int, ...] | None = None,
        version: str | object | None = ABSENT,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> Answer:
        """Send one request; `want` is the status (or statuses) that it must have."""
        said = {**self.headers, **(headers or {})}
        spoken = self.version if version is ABSENT else version
        if spoken is not None:
            said.setdefault(VERSION_HEADER, f"clustering {spoken}")
        if body is not ABSENT:
            content = json.dumps(body).encode()
            said.setdefault("Content-Type", "application/json")
        path = path if path.startswith("/") else f"/v1/{path}"
        began = time.monotonic()
        got = self.http.request(method, path, headers=said, content=content)
        asked = f"{method} {path} v={spoken} {(content or b'')[:600].decode(errors='replace')}"
        answer = Answer(
            asked, got.status_code, got.headers, got.text, round(time.monotonic() - began, 3)
        )
        self.exchanges.append(answer)
        del self.exchanges[:-400]
        if want is not None:
            wanted = (want,) if isinstance(want, int) else want
            assert answer.status in wanted, f"wanted {want}:\n{answer}"
        return answer

    def get(self, path: str, **how: Any) -> Any:
        """GET something that is there and return its JSON."""
        return self.ask("GET", path, want=200, **how).json

    def post(
        self, path: str, body: object, *, want: int | tuple[int, ...] = 202, **how: Any
    ) -> Answer:
        return self.ask("POST", path, body, want=want, **how)

    def patch(self, path: str, body: object, *, want: int = 202, **how: Any) -> Answer:
        return self.ask("PATCH", path, body, want=want, **how)

    def delete(self, path: str, *, want: int | tuple[int, ...] = 202, **how: Any) -> Answer:
        return self.ask("DELETE", path, want=want, **how)

    def refused(
        self,
        method: str,
        path: str,
        body: object = ABSENT,
        *,
        status: int = 400,
        kind: str | tuple[str, ...] = ("BadRequest", "HTTPBadRequest"),
        message: str | None = None,
        part: str | None = None,
        **how: Any,
    ) -> str:
        """Ask for what must be refused in the envelope; return the message."""
        answer = self.ask(method, path, body, want=status, **how)
        return check_error(answer, status, kind, message, part)

    def action(self, asked: Answer | str) -> Any:
        """Return the action that an answer, or an id, speaks of."""
        return self.get(f"actions/{asked if isinstance(asked, str) else action_of(asked)}")[
            "action"
        ]

    def ended(
        self, asked: Answer | str, *, want: str | None = "SUCCEEDED", within_s: float = 120
    ) -> Any:
        """Wait for the end of an action and return it; its status has to be `want`."""
        action = wait_until(
            lambda: self.action(asked),
            lambda action: action["status"] not in UNFINISHED,
            within_s=within_s,
        )
        assert want is None or action["status"] == want, action
        return action

    def until(self, path: str, holds: Callable[[Any], Any], *, within_s: float = 60) -> Any:
        """GET again and again until `holds` of the one object inside."""
        return wait_until(
            lambda: next(iter(self.get(path).values())), holds, within_s=within_s, why=path
        )

    def gone(self, path: str, *, within_s: float = 60) -> None:
        """Wait until the object in the path is no more."""
        wait_for(lambda: self.ask("GET", path).status == 404, within_s=within_s)


def action_of(answer: Answer) -> str:
    """Return the action's id: from Location, which must agree with a body that names it."""
    found = re.fullmatch(r"https?://[^/]+/v1/actions/([0-9a-f-]{36})", answer.headers["location"])
    assert found, answer
    named = answer.json.get("action") if answer.text.startswith('{"action"') else None
    assert named in {None, found[1]}, answer
    return found[1]


def check_error(
    answer: Answer,
    status: int,
    kind: str | tuple[str, ...] | None,
    message: str | None = None,
    part: str | None = None,
) -> str:
    """Check the error envelope and return its message."""
    assert answer.kind == "application/json", answer
    body = answer.json
    assert {"code", "title", "explanation", "error"} <= set(body), answer
    assert body["code"] == body["error"]["code"] == status, answer
    assert body["title"] == EXPLANATIONS[status], answer
    assert words(body["explanation"]), answer
    said = body["error"]["message"]
    assert words(said), answer
    if kind is not None:
        kinds = (kind,) if isinstance(kind, str) else kind
        assert body["error"]["type"] in kinds, f"wanted type {kinds}: {answer}"
    if message is not None:
        assert said == message, f"wanted {message!r}: {answer}"
    if part is not None:
        assert part in said, f"wanted {part!r} in it: {answer}"
    assert VERSION_HEADER.lower() not in answer.headers, f"no version header on errors: {answer}"
    return str(said)


def words(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def check_html(answer: Answer, status: int) -> None:
    """Check an error of the framework, which speaks HTML."""
    assert answer.status == status, answer
    assert answer.kind == "text/html", answer
    assert str(status) in answer.text, answer


# --- the server ------------------------------------------------------------------------------------


@dataclass
class Server:
    """One `yaffle serve`, with its state directory and everything it printed."""

    state: Path
    process: subprocess.Popen[bytes]
    root: str
    database: str
    """Its URL."""

    def log(self) -> str:
        return (self.state.parent / "serve.log").read_text(errors="replace")

    def living(self) -> dict[int, str]:
        """Return pid and node id of every process that a node of this server is."""
        found = {}
        mark = f"ACCEPTANCE_MARK={self.state}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                environ = (entry / "environ").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if mark in environ and state not in "ZX":
                node = next((e for e in environ if e.startswith(b"YAFFLE_NODE_ID=")), b"=?")
                found[int(entry.name)] = node.partition(b"=")[2].decode()
        return found


def environment(state: Path, **more: str) -> dict[str, str]:
    """Return an environment without settings of the machine, with budgets that no test can meet."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("YAFFLE_", "OS_", "NOTIFY_"))}
    budgets = {
        f"YAFFLE_BUDGETS__{scope.upper()}__{name.upper()}": str(value)
        for scope in ("total", "project", "domain", "host", "cluster")
        for name, value in UNLIMITED.items()
    }
    return {**kept, **budgets, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", **more}


@contextmanager
def serving(
    root: Path, *flags: str, local_process: bool = True, database: str = "", **env: str
) -> Iterator[Server]:
    """Run a server below `root` until the block ends; its nodes die with it."""
    state = root / "state"
    state.mkdir(parents=True, exist_ok=True)
    database = database or f"sqlite:///{state / 'yaffle.db'}"
    with (root / "serve.log").open("ab") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "yaffle.cli", "serve", "--listen", "127.0.0.1:0"),
                *("--state-dir", str(state), "--database", database, *flags),
                *(("--allow-local-process",) if local_process else ()),
            ],
            # It is never killed; a lease that ran out on a busy machine would be another story.
            env=environment(state, **{"YAFFLE_ENGINE__LEASE": "120", **env}),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        server = Server(state, process, "", database)
        try:
            server.root = wait_for(lambda: address(server), within_s=120)
            yield server
        finally:
            end(server)


def address(server: Server) -> str | None:
    """Return the server's root once it answers there."""
    assert server.process.poll() is None, server.log()[-3000:]
    try:
        card = json.loads((server.state / "server.json").read_text())
    except (OSError, ValueError):
        return None
    text = json.dumps(card)
    found = re.search(r"127\.0\.0\.1:(\d+)", text)
    return (
        f"http://127.0.0.1:{found[1]}" if found and card.get("pid") == server.process.pid else None
    )


def end(server: Server) -> None:
    """End the server and every process that it left."""
    server.process.send_signal(signal.SIGTERM)
    try:
        server.process.wait(60)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait(10)

    def swept() -> bool:
        left = server.living()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not left

    wait_for(swept)


_numbers = itertools.count(1)


def fresh(word: str) -> str:
    """Return a name that nobody else in this run has."""
    return f"{word}-{next(_numbers)}"
