"""/health in a WSGI service: it owns its path exactly, and leaves everything else alone."""

from __future__ import annotations

import json
import threading
import wsgiref.simple_server
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.validate import validator

import pytest

from yaffle_health.errors import BadOption
from yaffle_health.manager import Manager
from yaffle_health.model import Health, Status
from yaffle_health.reader import Target, read
from yaffle_health.wsgi import HealthApp

Environ = dict[str, Any]


def service(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"the service at " + (environ["SCRIPT_NAME"] + environ["PATH_INFO"]).encode()]


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Not into the tests' output."""


def call(
    app: HealthApp,
    path: str,
    *,
    method: str = "GET",
    query: str = "",
    prefix: str = "",
    **more: str,
) -> tuple[str, dict[str, str], bytes]:
    said: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]]) -> None:
        said.append((status, headers))

    environ = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "SCRIPT_NAME": prefix,
        "QUERY_STRING": query,
        **more,
    }
    body = b"".join(app(environ, start_response))
    return said[0][0], dict(said[0][1]), body


@pytest.fixture
def manager() -> Manager:
    manager = Manager(service_id="1", description="api", host="c-1")
    manager.report("database", "fail", "lost")
    return manager


@pytest.fixture
def port(manager: Manager) -> Iterator[int]:
    app = HealthApp(validator(service), source=manager)
    server = wsgiref.simple_server.make_server(
        "127.0.0.1",
        0,
        validator(app),  # type: ignore[arg-type]
        handler_class=Quiet,
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_in_a_real_server_and_by_the_rules_of_pep_3333(port: int, manager: Manager) -> None:
    reading = read(Target(host="127.0.0.1", port=port), timeout_s=30)
    assert (reading.status, reading.http_status) == (Status.FAIL, 503)
    assert reading.health is not None
    assert reading.health.checks[0].output == "lost"
    manager.passed("database")
    assert read(Target(host="127.0.0.1", port=port), timeout_s=30).status is Status.PASS


@pytest.mark.parametrize(
    "path", ["/", "", "/healthcheck", "/health/", "/healthz", "/v2.1/health", "//health", "/Health"]
)
def test_everything_else_is_the_services(manager: Manager, path: str) -> None:
    status, _, body = call(HealthApp(service, source=manager), path)
    assert (status, body) == ("200 OK", b"the service at " + path.encode())
    assert call(HealthApp(source=manager), path)[0] == "404 Not Found"


def test_a_service_mounted_at_our_path_keeps_its_root(manager: Manager) -> None:
    app = HealthApp(service, source=manager)
    assert call(app, "", prefix="/health")[2] == b"the service at /health"
    assert call(app, "/health", prefix="/compute")[0].startswith("503")


def test_the_path_is_what_is_left_of_the_prefix(manager: Manager) -> None:
    """Whoever put the app under a prefix put our path there too (ADR 0024)."""
    app = HealthApp(service, source=manager)
    assert call(app, "/health", prefix="/v2.1")[0].startswith("503")
    assert call(app, "/v2.1/health")[2] == b"the service at /v2.1/health"
    assert call(app, "/health/health", prefix="")[2] == b"the service at /health/health"


def test_a_source_that_raises_is_answered_and_told_once(
    manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    broken = True

    def health_of(group: str | None) -> Health:
        if broken:
            raise RuntimeError("hunter2")
        return manager.health(group)

    app = HealthApp(service, source=health_of)
    for method in ("GET", "HEAD", "GET"):
        status, headers, body = call(app, "/health", method=method)
        assert status == "500 Internal Server Error"
        assert headers["Cache-Control"] == "no-store"
        assert body in {b"the health of this process cannot be told\n", b""}
    assert [each.getMessage() for each in caplog.records] == ["cannot tell the health"]
    assert call(app, "/other")[0] == "200 OK"
    broken = False
    assert call(app, "/health")[0].startswith("503")
    broken = True
    assert call(app, "/health")[0].startswith("500")
    assert len(caplog.records) == 2


def test_alone_it_may_be_mounted_as_a_dispatcher_does_it(manager: Manager) -> None:
    assert call(HealthApp(source=manager), "", prefix="/health")[0].startswith("503")


def test_the_endpoints_table_holds_here_too(manager: Manager) -> None:
    app = HealthApp(service, source=manager)
    status, headers, body = call(app, "/health", method="HEAD")
    assert (status, body) == ("503 Service Unavailable", b"")
    assert headers["Content-Type"] == "application/health+json"
    assert headers["Cache-Control"] == "no-cache"
    assert int(headers["Content-Length"]) > 100
    assert call(app, "/health", method="OPTIONS")[0] == "204 No Content"
    status, headers, _ = call(app, "/health", method="DELETE")
    assert (status, headers["Allow"]) == ("405 Method Not Allowed", "GET, HEAD")
    assert call(app, "/health", query="group=nonsense")[0] == "404 Not Found"
    ietf = json.loads(call(app, "/health", query="format=ietf")[2])
    assert isinstance(ietf["checks"]["database"], list)
    profile = 'application/health+json;profile="ietf-06"'
    assert json.loads(call(app, "/health", HTTP_ACCEPT=profile)[2])["notes"] == ["host=c-1"]
    assert call(app, "/health", query="format=text")[2] == b"fail\n"


def test_cache_control_is_the_ttl_where_nothing_is_said() -> None:
    manager = Manager(ttl_s=60)
    assert call(HealthApp(source=manager), "/health")[1]["Cache-Control"] == "max-age=60"
    assert call(HealthApp(source=manager.health), "/health")[1]["Cache-Control"] == "no-cache"
    quiet = HealthApp(source=manager, cache_control=0)
    assert "Cache-Control" not in call(quiet, "/health")[1]


@pytest.mark.parametrize("path", ["/healthcheck", "/", "health", "/health/", "/h?x=1", "/h h"])
def test_a_path_that_is_not_ours_is_refused(manager: Manager, path: str) -> None:
    with pytest.raises(BadOption, match="path"):
        HealthApp(source=manager, path=path)


def test_a_bad_format_or_cache_control_is_refused(manager: Manager) -> None:
    with pytest.raises(BadOption, match="format"):
        HealthApp(source=manager, format="xml")
    with pytest.raises(BadOption, match="cache_control"):
        HealthApp(source=manager, cache_control=-2)
