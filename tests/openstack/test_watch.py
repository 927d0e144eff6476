"""`yaffle watch` in a real cloud, with a reader's rights, and every request of it written down."""

from __future__ import annotations

import json
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from lab.openstack import Lab
from lab.openstack.catalog import grant
from tests.functional.cli.support import Running, run, wait_for
from tests.openstack.cloud import Cloud

LOOK = "4"
WITHIN_S = 240.0
Sent = tuple[str, str]


def _recorder(lab: Lab, sent: list[Sent]) -> type[BaseHTTPRequestHandler]:
    places = {"/v3": lab.url("identity"), "/v2.1": lab.url("compute")}

    class Recorder(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            sent.append((self.command, urlsplit(self.path).path))
            place = next(url for start, url in places.items() if self.path.startswith(start))
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            kept = {
                k: v for k, v in self.headers.items() if k.lower() not in {"host", "connection"}
            }
            connection = HTTPConnection(str(urlsplit(place).netloc), timeout=60)
            try:
                connection.request(self.command, self.path, body or None, kept)
                answer = connection.getresponse()
                content = answer.read()
            finally:
                connection.close()
            # Who asked may have given up meanwhile.
            with suppress(ConnectionError):
                self._pass_on(answer, content)

        def _pass_on(self, answer: HTTPResponse, content: bytes) -> None:
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"connection", "content-length", "transfer-encoding"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Recorder


@contextmanager
def recorded(lab: Lab) -> Iterator[tuple[str, list[Sent]]]:
    """Stand between the watch and the cloud; yield the address and what is sent."""
    sent: list[Sent] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), _recorder(lab, sent)) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", sent
        finally:
            server.shutdown()
            thread.join(10)


@pytest.fixture
def reader(cloud: Cloud) -> Iterator[tuple[str, str]]:
    """Name and password of a user who may only read in the project."""
    name, password = f"reader-{secrets.token_hex(4)}", secrets.token_urlsafe(12)
    words = {"user": {"name": name, "domain_id": "default", "password": password}}
    ident = cloud.lab.api.call("POST", "identity", "/users", words)["user"]["id"]
    grant(cloud.lab.api, project=cloud.credentials.project_id, user=ident, role="reader")
    yield name, password
    cloud.lab.api.call("DELETE", "identity", f"/users/{ident}")


def test_a_reader_sees_what_would_be_done_and_nothing_is_ever_written(
    cloud: Cloud, reader: tuple[str, str], tmp_path: Path
) -> None:
    names = ("off", "frozen", "broken", "stopped", "deleted")
    server = {name: cloud.server(name, active=False) for name in names}
    for ident in server.values():
        cloud.until(ident, "ACTIVE")
    name, password = reader
    with recorded(cloud.lab) as (place, sent):
        auth = {
            "auth_url": f"{place}/v3", "username": name, "password": password,
            "project_name": cloud.credentials.project, "user_domain_name": "Default",
            "project_domain_name": "Default",
        }  # fmt: skip
        section = {"auth": auth, "compute_endpoint_override": f"{place}/v2.1"}
        file = tmp_path / "clouds.yaml"
        file.write_text(json.dumps({"clouds": {"prod": section}}))
        words = ["watch", "--cloud", "prod", "--clouds-file", str(file)]
        words += ["--state", str(tmp_path / "w.db")]
        running = Running(*words, "--interval", LOOK, "--json")
        began = json.loads(running.line('"kind": "began"', within_s=WITHIN_S))
        assert began["servers"] == 5
        assert began["roles"] == ["reader"]
        assert any("hosts: our credentials may not see hosts" in one for one in began["unseen"])

        def kinds(which: str) -> list[str]:
            told = [json.loads(line) for line in running.lines]
            return [one["kind"] for one in told if one.get("server") == server[which]]

        def told(which: str, *wanted: str) -> None:
            try:
                wait_for(lambda: set(wanted) & set(kinds(which)), within_s=WITHIN_S)
            except AssertionError as error:
                error.add_note(f"{which}: {running.text}")
                raise

        cloud.act(server["stopped"], "os-stop")
        cloud.act(server["deleted"], "forceDelete")
        cloud.guest(server["off"]).off()
        told("stopped", "wish")
        told("deleted", "gone")
        told("off", "would")
        cloud.guest(server["frozen"]).pause()
        told("frozen", "would")
        state = {"os-resetState": {"state": "error"}}
        cloud.operator.call("POST", "compute", f"/servers/{server['broken']}/action", state)
        # The third of four: the guard that counts them says no.
        told("broken", "held")
        looked = sum(path.endswith("/servers/detail") for _, path in sent)
        running.signal(signal.SIGINT)
        assert running.end() == 0

        assert looked >= 5
        writes = [one for one in sent if one[0] not in {"GET", "HEAD"}]
        assert set(writes) == {("POST", "/v3/auth/tokens")}
        assert "would" not in kinds("stopped") + kinds("deleted")
    for ident in cloud.lab.servers_of(cloud.credentials.project_id):
        assert cloud.show(ident).metadata == {}
    report = run(*words, "--report", "--json").json
    assert (report["wishes"], report["gone"]) == (1, 1)
    assert report["failures"] == 3
