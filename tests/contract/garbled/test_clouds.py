"""A cloud that answers with garbage, over HTTP: each driver says unknown, and fails no node for it."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.contract.load_balancer.test_haproxy import mode, node
from tests.private import private
from tests.unit.garbage import GARBAGE

from yaffle.api.auth.keystone.authenticator import KeystoneTokens
from yaffle.api.auth.port import Given
from yaffle.config import KeystoneSettings
from yaffle.drivers.detectors.load_balancer import LoadBalancerDetector
from yaffle.drivers.profiles.heat_stack import HeatStack
from yaffle.drivers.profiles.nova_server import NovaServer
from yaffle.drivers.workflows.mistral import MistralWorkflow
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import DependencyError
from yaffle.model.health import Outcome
from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import Operation, ProgressState, Target
from yaffle.ports import DriverContext

CALL_S = 60.0
SERVICES = ("compute", "orchestration", "workflowv2", "load-balancer")
TOKENS = (
    "no token",
    "no user",
    "token is null",
    "no header",
    "catalog is a number",
    "no date",
    "roles",
)


@dataclass
class Cloud:
    """What it answers may be changed while it runs."""

    url: str = ""
    body: bytes = b""
    """Whatever a service answers, with 200 or 201."""
    token: bytes = b""
    """What Keystone answers to a log-in; empty: as it should."""
    header: bool = True
    about: bytes = b""
    """What Keystone says a token is worth."""

    def document(self) -> dict[str, Any]:
        domain = {"id": "d", "name": "Default"}
        ends = [
            {
                "id": "e",
                "interface": "public",
                "region": "R",
                "region_id": "R",
                "url": f"{self.url}/s",
            }
        ]
        return {
            "methods": ["password"], "audit_ids": ["a"], "expires_at": "2099-01-01T00:00:00.000000Z",
            "issued_at": "2020-01-01T00:00:00.000000Z", "user": {"id": "u", "name": "u",
            "domain": domain},
            "project": {"id": "p", "name": "p", "domain": domain}, "roles": [{"id": "1",
            "name": "member"}],
            "catalog": [{"id": s, "type": s, "name": s, "endpoints": ends} for s in SERVICES],
        }  # fmt: skip

    def context(self, folder: Path, **more: object) -> DriverContext:
        """Return what a driver is made with."""
        auth = {
            "auth_url": f"{self.url}/v3", "username": "yaffle", "password": "p", "project_name": "p",
            "user_domain_name": "Default", "project_domain_name": "Default",
        }  # fmt: skip
        file = folder / "clouds.yaml"
        file.write_text(json.dumps({"clouds": {"lab": {"auth": auth}}}))
        settings = {"cloud": "lab", "clouds_file": str(file), **more}
        return DriverContext(clock=SystemClock(), state_dir=folder, settings=settings)


def _handler(cloud: Cloud) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            path, status, token = self.path.partition("?")[0].rstrip("/"), 200, False
            if path == "/v3":
                links = [{"rel": "self", "href": f"{cloud.url}/v3/"}]
                body = json.dumps(
                    {"version": {"id": "v3.14", "status": "stable", "links": links}}
                ).encode()
            elif path == "/v3/auth/tokens" and self.command == "POST":
                status, token = 201, cloud.header
                body = cloud.token or json.dumps({"token": cloud.document()}).encode()
            elif path == "/v3/auth/tokens":
                body = cloud.about
            else:
                body = cloud.body
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if token:
                self.send_header("X-Subject-Token", "t" * 32)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def served() -> Iterator[Cloud]:
    cloud = Cloud()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(cloud))
    cloud.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield cloud
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)


@pytest.fixture(scope="module")
def whole() -> Iterator[Cloud]:
    with served() as cloud:
        yield cloud


@pytest.fixture
def cloud(whole: Cloud) -> Cloud:
    whole.body, whole.token, whole.header, whole.about = b"", b"", True, b""
    return whole


def target(kind: str) -> Target:
    return Target(
        node_id=NodeId(str(uuid.uuid4())), name="n", physical_id=str(uuid.uuid4()),
        profile_type=kind, spec={"flavor": "f"}, project="p",
    )  # fmt: skip


async def _ask_everybody(cloud: Cloud, folder: Path) -> None:
    """Ask each driver, and see that it knows nothing and has failed nothing."""
    for driver in (NovaServer(cloud.context(folder)), HeatStack(cloud.context(folder))):
        for count in (1, 2):
            several = [target(driver.type) for _ in range(count)]
            for reading in await driver.read(several, deadline_s=CALL_S):
                assert (reading.exists, reading.up) == (True, None), reading
        operation = Operation(kind="DELETE", target=target(driver.type), params={})
        ident = OperationId(str(uuid.uuid4()))
        begun = await driver.submit(operation, operation_id=ident, deadline_s=CALL_S)
        assert begun.state is ProgressState.RUNNING, begun
        followed = await driver.poll(operation, operation_id=ident, deadline_s=CALL_S)
        assert followed.state is ProgressState.RUNNING, followed
    mistral = MistralWorkflow(cloud.context(folder, in_place=["heal"]))
    asked = {"operation_id": OperationId(str(uuid.uuid4())), "deadline_s": CALL_S}
    begun = await mistral.submit("heal", {}, target("x"), timeout_s=60.0, **asked)
    assert begun.state is ProgressState.RUNNING, begun
    followed = await mistral.poll("heal", target("x"), **asked)
    assert followed.state is ProgressState.RUNNING, followed
    file = str(folder / "clouds.yaml")
    balancer = {"type": "octavia", "cloud": "lab", "clouds_file": file, "timeout": CALL_S}
    settings = {"balancers": {"lb": balancer}}
    detector = LoadBalancerDetector(
        DriverContext(clock=SystemClock(), state_dir=folder, settings=settings)
    )
    for found in await detector.check([node("web-0")], mode("web"), deadline_s=CALL_S):
        assert found.outcome is Outcome.UNKNOWN, found
        assert found.code in {"LB-ERROR", "LB-NO-POOL", "LB-NO-MEMBER"}, found


@pytest.mark.parametrize("garbage", GARBAGE)
def test_what_a_service_says_is_unknown(cloud: Cloud, tmp_path: Path, garbage: str) -> None:
    cloud.body = GARBAGE[garbage]
    asyncio.run(_ask_everybody(cloud, tmp_path))


def spoil(cloud: Cloud, how: str) -> dict[str, Any]:
    """Return what Keystone says of a token, which is JSON and not what it should be."""
    good = cloud.document()
    match how:
        case "no token":
            return {"tokens": good}
        case "no user":
            return {"token": {k: v for k, v in good.items() if k != "user"}}
        case "token is null":
            return {"token": None}
        case "catalog is a number":
            return {"token": {**good, "catalog": 7}}
        case "no date":
            return {"token": {**good, "expires_at": "never"}}
        case "roles":
            return {"token": {**good, "roles": [None], "catalog": [None]}}
    return {"token": good}


@pytest.mark.parametrize(
    "garbage", ["empty", "html", "a list", "null", "deep lists", "not utf-8", "noise"]
)
def test_what_keystone_says_at_the_log_in_is_unknown(
    cloud: Cloud, tmp_path: Path, garbage: str
) -> None:
    cloud.token = GARBAGE[garbage] or b" "
    asyncio.run(_ask_everybody(cloud, tmp_path))


@pytest.mark.parametrize("how", TOKENS)
def test_a_token_of_another_shape_is_unknown(cloud: Cloud, tmp_path: Path, how: str) -> None:
    cloud.token, cloud.header = json.dumps(spoil(cloud, how)).encode(), how != "no header"
    asyncio.run(_ask_everybody(cloud, tmp_path))


# --- at the door --------------------------------------------------------------------------------


def door(cloud: Cloud, folder: Path) -> KeystoneTokens:
    """Return what asks Keystone who somebody is."""
    private(folder / "password", "p\n")
    (folder / "password").chmod(0o600)
    settings = KeystoneSettings(auth_url=f"{cloud.url}/v3", password_file=folder / "password")
    return KeystoneTokens(settings, SystemClock())


@pytest.mark.parametrize("garbage", [*GARBAGE, *TOKENS])
def test_whose_a_token_is_cannot_be_told_and_nobody_is_let_in(
    cloud: Cloud, tmp_path: Path, garbage: str
) -> None:
    said = GARBAGE.get(garbage)
    cloud.about = json.dumps(spoil(cloud, garbage)).encode() if said is None else said

    async def asked() -> None:
        given = Given(authorization="", auth_token="theirs", name="", peer="")
        try:
            known = await door(cloud, tmp_path).who(given)
        except DependencyError:
            return
        # What can be read is believed as far as that: somebody without a role has no right.
        assert garbage == "no header" or known is None or not known.who.rights, known

    asyncio.run(asked())
