"""The sample for HAProxy, with a real one before two real `yaffle api`: one dies, requests go on."""

from __future__ import annotations

import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from tests.given import Given
from tests.packaging.places import PACKAGING
from tests.packaging.serving import Serving, until, yaffle
from tests.servers.process import free_port, stands_still

SAMPLE = PACKAGING / "haproxy/haproxy.cfg"
HOST = "yaffle.example.org"
TOKEN = "0123456789abcdef0123456789abcdef"
pytestmark = pytest.mark.skipif(shutil.which("haproxy") is None, reason="there is no haproxy")


def certificate(folder: Path) -> Path:
    """Return a file with key and certificate, as HAProxy wants them."""
    key, crt, both = folder / "key", folder / "crt", folder / "yaffle.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
            *("ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"),
            *("-keyout", str(key), "-out", str(crt)),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    both.write_text(crt.read_text() + key.read_text())
    return both


class Balanced:
    """Two servers and a proxy."""

    def __init__(self, folder: Path, database: str) -> None:
        yaffle("db", "migrate", "--database", database, folder=folder)
        tokens = folder / "tokens"
        tokens.write_text(f"tests:{TOKEN}\n")
        tokens.chmod(0o600)
        env = {
            "YAFFLE_DATABASE__URL": database,
            "YAFFLE_SERVER__TOKEN_FILE": str(tokens),
            "YAFFLE_SERVER__ALLOWED_HOSTS": f'["{HOST}"]',
        }
        self.servers = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            # Elsewhere than before it could not be found again, so not where anybody may connect from.
            listen = f"127.0.0.1:{free_port()}"
            self.servers.append(Serving(folder / name, command="api", listen=listen, env=env))
        self.port = free_port()
        self.pem = certificate(folder)
        self.config = folder / "haproxy.cfg"
        self.log = folder / "haproxy.log"

    def write(self) -> None:
        """Write the sample with our addresses in place of its own."""
        text = SAMPLE.read_text().replace("/etc/haproxy/yaffle.pem", str(self.pem))
        text, binds = re.subn(r"bind :443", f"bind 127.0.0.1:{self.port}", text)
        assert binds == 1
        for sample, server in zip(("127.0.0.1:8781", "127.0.0.1:8782"), self.servers, strict=True):
            assert text.count(sample) == 1
            text = text.replace(sample, server.url.removeprefix("http://"))
        self.config.write_text(text)

    def client(self) -> httpx.Client:
        """Return a client that trusts the proxy's certificate and nothing else."""
        context = ssl.create_default_context(cafile=str(self.pem))
        context.check_hostname = False
        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.port}",
            verify=context,
            headers={"Host": HOST, "Authorization": f"Bearer {TOKEN}"},
            timeout=60,
            trust_env=False,
        )


@contextmanager
def balanced(folder: Path, database: str) -> Iterator[Balanced]:
    found = Balanced(folder, database)
    with found.servers[0], found.servers[1]:
        found.write()
        with found.log.open("wb") as log:
            proxy = subprocess.Popen(
                ["haproxy", "-db", "-f", str(found.config)], stdout=log, stderr=log
            )
        try:
            with found.client() as client:
                until(lambda: proxy.poll() is not None or answers(client) == 200)
            assert proxy.poll() is None, found.log.read_text()
            yield found
        finally:
            proxy.kill()
            proxy.wait(60)


def answers(client: httpx.Client) -> int | None:
    """Return the status of a request; None where nobody takes a connection yet, or it is ended."""
    try:
        return client.get("/v1/clusters").status_code
    except (httpx.ConnectError, httpx.RemoteProtocolError):
        return None


def test_haproxy_accepts_the_sample(tmp_path: Path) -> None:
    both = certificate(tmp_path)
    config = tmp_path / "haproxy.cfg"
    config.write_text(SAMPLE.read_text().replace("/etc/haproxy/yaffle.pem", str(both)))
    done = subprocess.run(
        ["haproxy", "-c", "-f", str(config)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr


@pytest.mark.timeout(400)
def test_one_of_two_dies_and_requests_go_on(postgres_url: str, tmp_path: Path) -> None:
    with balanced(tmp_path, postgres_url) as world, world.client() as client:
        # Who is not signed in is not let in, although every request comes from loopback.
        assert client.get("/v1/clusters", headers={"Authorization": ""}).status_code == 401
        # No process's numbers are mixed with another's.
        assert client.get("/metrics").status_code == 404
        assert client.get("/health").status_code == 404

        # One dies under load: not one request fails, neither at once nor later.
        seen = []
        for number in range(200):
            if number == 40:
                world.servers[0].end(signal.SIGKILL)
            seen.append(client.get("/v1/clusters").status_code)
        assert set(seen) == {200}

        # It comes back, the other stops in order.
        until(lambda: up(world) == 1)
        world.servers[0].start()
        until(lambda: up(world) == 2)
        world.servers[1].process.send_signal(signal.SIGTERM)
        assert {client.get("/v1/clusters").status_code for _ in range(100)} == {200}
        world.servers[1].process.wait(120)

        # Frozen, it still takes connections: it is found by its health, and what waits is ended.
        world.servers[0].process.send_signal(signal.SIGSTOP)
        until(lambda: stands_still(world.servers[0].process.pid))
        with Given() as time_given:
            with suppress(httpx.RemoteProtocolError):
                assert client.get("/v1/clusters").status_code >= 500
            assert time_given.s < 15
        until(lambda: answers(client) == 503)
        away = client.get("/v1/clusters")
        assert away.json()["error"]["code"] == 503
        assert away.headers["Retry-After"] == "2"

        # Thawed, it is used again by itself.
        world.servers[0].process.send_signal(signal.SIGCONT)
        until(lambda: answers(client) == 200)


def up(world: Balanced) -> int:
    """Return how many servers the proxy said last to be up."""
    said = re.findall(r"Server yaffle-api/(\w+) is (UP|DOWN)", world.log.read_text())
    last = {"api1": "UP", "api2": "UP"} | dict(said)
    return list(last.values()).count("UP")
