"""The clients that people have: curl, netcat, socat, HAProxy, a Kubernetes probe, a browser."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from health_wire import connected, eventually, read_all, serving

from yaffle_health.manager import Manager
from yaffle_health.server import Endpoint
from yaffle_health.uris import Tcp, Unix


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


@pytest.fixture
def manager() -> Manager:
    made = Manager(description="nova-compute", host="node-1")
    made.passed("database")
    return made


@pytest.fixture
def endpoint(manager: Manager, tmp_path: Path) -> Iterator[Endpoint]:
    with serving(manager, uri=f"tcp://127.0.0.1:0,unix://{tmp_path}/health.sock") as made:
        yield made


def port_of(endpoint: Endpoint) -> int:
    tcp = endpoint.addresses[0]
    assert isinstance(tcp, Tcp)
    return tcp.port


def path_of(endpoint: Endpoint) -> str:
    unix = endpoint.addresses[1]
    assert isinstance(unix, Unix)
    return unix.path


def said(*command: str, stdin: bytes | None = None, fails: int = 0) -> str:
    found = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)
    assert found.returncode == fails, found.stderr
    return found.stdout.decode()


@needs("curl")
def test_curl(endpoint: Endpoint, manager: Manager) -> None:
    url = f"http://127.0.0.1:{port_of(endpoint)}/health"
    assert json.loads(said("curl", "-sS", "--fail", url))["status"] == "pass"
    over_unix = ("--unix-socket", path_of(endpoint), "http://localhost/health")
    assert json.loads(said("curl", "-sS", "--fail", *over_unix))["status"] == "pass"
    assert said("curl", "-sSI", url).startswith("HTTP/1.1 200 OK\r\n")
    assert said("curl", "-sS", "--http1.0", url + "?format=text") == "pass\n"
    ietf = ("-H", 'Accept: application/health+json;profile="ietf-06"')
    assert isinstance(json.loads(said("curl", "-sS", *ietf, url))["notes"], list)
    code = ("-o", "/dev/null", "-w", "%{http_code}")
    assert said("curl", "-sS", *code, "-X", "DELETE", url) == "405"
    assert said("curl", "-sS", *code, "-d", "x" * 100_000, url) == "405"
    assert said("curl", "-sS", *code, "-X", "OPTIONS", url) == "204"
    assert said("curl", "-sS", *code, f"http://127.0.0.1:{port_of(endpoint)}/") == "404"
    manager.report("database", "fail", "no route to host")
    assert said("curl", "-sS", *code, url) == "503"
    said("curl", "-sf", url, fails=22)


@needs("nc")
@pytest.mark.parametrize("end", ["\r\n", "\n"], ids=["crlf", "lf"])
def test_netcat(endpoint: Endpoint, end: str) -> None:
    request = f"GET /health?format=text HTTP/1.0{end}{end}".encode()
    for place in (("127.0.0.1", str(port_of(endpoint))), ("-U", path_of(endpoint))):
        for half_close in ((), ("-N",)):
            assert said("nc", *half_close, *place, stdin=request).endswith("\r\n\r\npass\n")


@needs("socat")
def test_socat(endpoint: Endpoint) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    for place in (f"TCP:127.0.0.1:{port_of(endpoint)}", f"UNIX-CONNECT:{path_of(endpoint)}"):
        answer = said("socat", "-t5", "-", place, stdin=request)
        assert answer.startswith("HTTP/1.1 200 OK\r\n")
        assert '"status":"pass"' in answer


HAPROXY = """
global
    stats socket {folder}/admin.sock mode 600 level admin
    maxconn 50
defaults
    mode http
    timeout connect 20s
    timeout client 60s
    timeout server 60s
    timeout check 15s
    default-server inter 100ms fastinter 100ms downinter 100ms rise 1 fall 1
backend plain
    option httpchk GET /health
    server tcp 127.0.0.1:{port} check
    server unix unix@{path} check
backend modern
    option httpchk
    http-check send meth GET uri /health?format=text ver HTTP/1.1 hdr Host nova
    http-check expect string pass
    server tcp 127.0.0.1:{port} check
backend head
    option httpchk HEAD /health HTTP/1.1
    http-check expect status 200
    server tcp 127.0.0.1:{port} check
"""


def listens(place: Unix) -> bool:
    """Whether somebody is there: the file comes before that."""
    with contextlib.suppress(OSError), connected(place):
        return True
    return False


@contextlib.contextmanager
def haproxy(endpoint: Endpoint, folder: Path) -> Iterator[Unix]:
    """HAProxy that checks the endpoint in four ways; where it can be asked about them."""
    config = folder / "haproxy.cfg"
    config.write_text(HAPROXY.format(folder=folder, port=port_of(endpoint), path=path_of(endpoint)))
    with subprocess.Popen(["haproxy", "-q", "-db", "-f", str(config)]) as running:
        try:
            admin = Unix(str(folder / "admin.sock"))
            eventually(lambda: listens(admin) or running.poll() is not None)
            yield admin
        finally:
            running.kill()


def states(admin: Unix) -> dict[str, str]:
    """Server -> UP or DOWN, once each has been checked."""
    with connected(admin) as client:
        client.sendall(b"show stat -1 4 -1\n")
        lines = read_all(client).decode().removeprefix("# ").strip().splitlines()
    names = lines[0].split(",")
    rows = [dict(zip(names, line.split(","), strict=False)) for line in lines[1:]]
    return {
        f"{row['pxname']}/{row['svname']}": row["status"] for row in rows if row["check_status"]
    }


@needs("haproxy")
def test_haproxy_follows(endpoint: Endpoint, manager: Manager, tmp_path: Path) -> None:
    everybody = {"plain/tcp", "plain/unix", "modern/tcp", "head/tcp"}
    with haproxy(endpoint, tmp_path) as admin:

        def all_are(state: str) -> bool:
            found = states(admin)
            return found.keys() == everybody and set(found.values()) == {state}

        time.sleep(0.3)  # three rounds of checks: UP is also what HAProxy begins with
        eventually(lambda: all_are("UP"), "HAProxy never saw it up")
        manager.report("database", "fail", "down")
        eventually(lambda: all_are("DOWN"), "HAProxy never saw it down")
        manager.passed("database")
        eventually(lambda: all_are("UP"), "HAProxy never saw it up again")


def test_a_kubernetes_probe(endpoint: Endpoint, manager: Manager) -> None:
    """As the kubelet asks: HTTP/1.1, its own agent, Connection: close; 200-399 is success."""
    headers = {"User-Agent": "kube-probe/1.31", "Accept": "*/*", "Connection": "close"}
    manager.register("loop", groups=["live", "start"])
    manager.passed("loop")
    manager.report("database", "fail", "down")
    wanted = {"live": 200, "start": 200, "ready": 503}
    for group, status in wanted.items():
        connection = http.client.HTTPConnection("127.0.0.1", port_of(endpoint), timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", f"/health?group={group}", headers=headers)
            assert connection.getresponse().status == status


def test_a_browser(endpoint: Endpoint) -> None:
    """A browser says a lot, and asks for an icon; it must not be led anywhere."""
    headers = {
        "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "Accept-Encoding": "gzip, deflate, br, zstd",
        "Accept-Language": "en-GB,en;q=0.5",
        "Cookie": "session=" + "x" * 4000,
        "Upgrade-Insecure-Requests": "1",
        "Sec-Fetch-Mode": "navigate",
    }
    base = f"http://127.0.0.1:{port_of(endpoint)}"
    page = urllib.request.Request(f"{base}/health", headers=headers)
    with urllib.request.urlopen(page, timeout=60) as answer:
        assert answer.headers["Content-Type"] == "application/health+json"
        assert "Content-Encoding" not in answer.headers
        assert json.load(answer)["status"] == "pass"
    with pytest.raises(urllib.error.HTTPError) as missing:
        urllib.request.urlopen(f"{base}/favicon.ico", timeout=60)
    with missing.value:
        assert missing.value.code == 404


def test_a_client_that_wants_to_keep_its_connection_is_told_not_to(endpoint: Endpoint) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(endpoint), timeout=60)
    with contextlib.closing(connection):
        for _ in range(3):
            connection.request("GET", "/health", headers={"Connection": "keep-alive"})
            answer = connection.getresponse()
            assert answer.will_close
            assert answer.read()


def test_expect_100_continue_gets_the_answer_at_once(endpoint: Endpoint) -> None:
    with socket.create_connection(("127.0.0.1", port_of(endpoint)), timeout=60) as client:
        client.sendall(
            b"POST /health HTTP/1.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
        )
        assert read_all(client).startswith(b"HTTP/1.1 405 ")
