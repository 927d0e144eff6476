"""/health in FastAPI under a real uvicorn: owns its path exactly, and answers as the endpoint does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import fastapi
import pytest
import uvicorn

from yaffle_health.asgi import HealthApp
from yaffle_health.errors import BadOption
from yaffle_health.manager import Manager
from yaffle_health.model import Health, Status
from yaffle_health.reader import Reading, Target, read


@contextlib.contextmanager
def serving(app: Any) -> Iterator[int]:
    """Run an app under uvicorn in a thread; yield its port."""
    server = uvicorn.Server(uvicorn.Config(app, ws="none", log_level="error", lifespan="on"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        deadline = time.monotonic() + 60
        while not server.started and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(60)


def ask(port: int, request: str = "/health") -> Reading:
    return read(Target(host="127.0.0.1", port=port, request=request), timeout_s=30)


def a_service() -> fastapi.FastAPI:
    started: list[str] = []

    @contextlib.asynccontextmanager
    async def life(_: fastapi.FastAPI) -> AsyncIterator[None]:
        started.append("yes")
        yield

    app = fastapi.FastAPI(lifespan=life)

    @app.get("/{rest:path}")
    def everything(rest: str) -> dict[str, Any]:
        return {"the service": rest, "started": started}

    return app


def test_as_a_middleware_of_fastapi() -> None:
    manager = Manager(description="api")
    manager.report("database", "fail", "lost")
    app = a_service()
    app.add_middleware(HealthApp, source=manager)
    with serving(app) as port:
        reading = ask(port)
        assert (reading.status, reading.http_status) == (Status.FAIL, 503)
        assert reading.health is not None
        assert reading.health.service.description == "api"
        manager.passed("database")
        assert ask(port).status is Status.PASS
        assert ask(port, "/health?group=nonsense").http_status == 404
        for path in ("/", "/healthcheck", "/health/", "/healthz", "/v1/health"):
            # Not a health document, but the service's own words: its start was not swallowed.
            reading = ask(port, path)
            assert reading.http_status == 200
            assert reading.health is None
            assert reading.disagreements == ("the body has no status",)


def test_alone_and_mounted() -> None:
    manager = Manager()
    with serving(HealthApp(source=manager)) as port:
        assert ask(port).status is Status.PASS
        assert ask(port, "/").http_status == 404
    app = fastapi.FastAPI()
    app.mount("/health", HealthApp(source=manager, path="/health"))
    app.mount("/inner", HealthApp(source=manager))
    with serving(app) as port:
        assert ask(port, "/inner/health").status is Status.PASS
        assert ask(port, "/inner/other").http_status == 404
        assert ask(port, "/inner").http_status in {307, 404}


def test_a_source_that_waits_does_not_hold_the_loop() -> None:
    manager, slow, entered = Manager(), threading.Event(), threading.Event()

    def waiting(group: str | None) -> Health:
        entered.set()
        slow.wait(60)
        return manager.health(group)

    app = a_service()
    app.add_middleware(HealthApp, source=waiting)
    with serving(app) as port:
        answers: list[Reading] = []
        thread = threading.Thread(target=lambda: answers.append(ask(port)))
        thread.start()
        assert entered.wait(60)
        assert ask(port, "/something").http_status == 200
        slow.set()
        thread.join()
        assert answers[0].status is Status.PASS


async def _talk(app: HealthApp, scope: dict[str, Any], *incoming: str) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    queue = [{"type": kind} for kind in incoming]

    async def receive() -> dict[str, Any]:
        return queue.pop(0)

    async def send(message: Any) -> None:
        sent.append(dict(message))

    await app(scope, receive, send)
    return sent


def test_alone_it_follows_the_servers_life_and_refuses_websockets() -> None:
    app = HealthApp(source=Manager())
    life = asyncio.run(_talk(app, {"type": "lifespan"}, "lifespan.startup", "lifespan.shutdown"))
    assert [m["type"] for m in life] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    sent = asyncio.run(_talk(app, {"type": "websocket", "path": "/health"}, "websocket.connect"))
    assert sent[0]["type"] == "websocket.close"


def test_a_source_that_raises_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    def health_of(group: str | None) -> Health:
        raise RuntimeError("hunter2")

    scope = {"type": "http", "method": "GET", "path": "/health", "headers": []}
    start, body = asyncio.run(_talk(HealthApp(source=health_of), scope))
    assert start["status"] == 500
    assert body["body"] == b"the health of this process cannot be told\n"
    assert [each.getMessage() for each in caplog.records] == ["cannot tell the health"]


@pytest.mark.parametrize(
    ("path", "root", "ours"),
    [
        ("/v2.1/health", "/v2.1", True),
        ("/health", "/v2.1", True),
        ("/v2.1/health", "", False),
        ("/health", "/health", False),
        ("/health/health", "/health", True),
    ],
)
def test_the_path_is_what_is_left_of_the_prefix(path: str, root: str, ours: bool) -> None:
    async def service(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": []})

    scope = {"type": "http", "method": "GET", "path": path, "root_path": root, "headers": []}
    start = asyncio.run(_talk(HealthApp(service, source=Manager()), scope))[0]
    assert start["status"] == (200 if ours else 418)


def test_head_options_and_other_methods() -> None:
    app = HealthApp(source=Manager(ttl_s=60))

    def call(method: str) -> tuple[int, dict[bytes, bytes], bytes]:
        scope = {"type": "http", "method": method, "path": "/health", "headers": []}
        start, body = asyncio.run(_talk(app, scope))
        return start["status"], dict(start["headers"]), body["body"]

    status, headers, body = call("HEAD")
    assert (status, body) == (200, b"")
    assert headers[b"content-type"] == b"application/health+json"
    assert headers[b"cache-control"] == b"max-age=60"
    assert call("OPTIONS")[0] == 204
    assert call("POST")[0] == 405


@pytest.mark.parametrize("path", ["/healthcheck", "/", "health", "/health/"])
def test_a_path_that_is_not_ours_is_refused(path: str) -> None:
    with pytest.raises(BadOption, match="path"):
        HealthApp(source=Manager(), path=path)
