"""A small Mistral, in the shapes that the real one (23.0) answers in, with its bad days built in."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WELL, AWAY, HANGING, DEAF, GATEWAY = "well", "away", "hanging", "answers lost", "no such path"
FORBIDDING = "no right to it"
INPUTS = {"heal": {"node_id"}, "break": {"node_id"}}


class Mistral:
    """Executions by id; `manner` is how it behaves, `begun` what was really begun."""

    def __init__(self) -> None:
        self.manner = WELL
        self.executions: dict[str, dict[str, Any]] = {}
        self.begun: list[str] = []
        self.goes_on = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v2"

    def state(self, ident: str, word: str, info: str | None = None) -> None:
        """Let an execution be in a state."""
        self.executions[ident] |= {"state": word, "state_info": info}

    def age(self, ident: str, seconds: float) -> None:
        """Let an execution have begun that long ago."""
        began = datetime.now(UTC) - timedelta(seconds=seconds)
        self.executions[ident]["created_at"] = began.strftime("%Y-%m-%d %H:%M:%S")

    def begin(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return the execution of that id; begin it where there is none."""
        known = self.executions.get(asked["id"])
        if known is not None:
            return 201, known
        name, given = asked["workflow_name"], set(asked["input"])
        if name not in INPUTS:
            return 404, _fault(f"Workflow not found [workflow_identifier={name}, namespace=]")
        if given != INPUTS[name]:
            missing, unexpected = sorted(INPUTS[name] - given), sorted(given - INPUTS[name])
            text = f"Invalid input [name={name}, {missing=}, {unexpected=}]"
            return 400, _fault(text)
        self.begun.append(asked["id"])
        self.executions[asked["id"]] = {
            "id": asked["id"],
            "workflow_name": name,
            "description": asked["description"],
            "state": "RUNNING",
            "state_info": None,
            "input": json.dumps(asked["input"]),
            "output": "{}",
        }
        self.age(asked["id"], 0)
        return 201, self.executions[asked["id"]]


def _fault(text: str) -> dict[str, Any]:
    return {"faultcode": "Client", "faultstring": text, "debuginfo": None}


def _handler(state: Mistral) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if not self._misbehaves():
                ident = self.path.rpartition("/")[2]
                found = state.executions.get(ident)
                missing = _fault(f"WorkflowExecution not found [id={ident}]")
                self._say(200 if found else 404, found or missing)

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self._misbehaves():
                return
            status, told = state.begin(asked)
            if state.manner == DEAF:
                self.close_connection = True
                return
            self._say(status, told)

        def do_PUT(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not self._misbehaves():
                found = state.executions[self.path.rpartition("/")[2]]
                found |= asked
                self._say(200, found)

        def _misbehaves(self) -> bool:
            # Whoever came while it hung is let go of unheard, also once it is well again.
            manner = state.manner
            if manner == HANGING:
                state.goes_on.wait(120)
                self.close_connection = True
            if manner == AWAY:
                self._say(503, {"message": "back soon"})
            if manner == GATEWAY:
                self._say(404, {"message": "nothing is routed there"})
            if manner == FORBIDDING:
                self._say(403, {"message": "policy does not allow it"})
            return manner in {AWAY, GATEWAY, HANGING, FORBIDDING}

        def _say(self, status: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


@contextmanager
def mistral() -> Iterator[Mistral]:
    """Run one until the block ends."""
    state = Mistral()
    thread = threading.Thread(target=state.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.goes_on.set()
        state.server.shutdown()
        state.server.server_close()
        thread.join()
