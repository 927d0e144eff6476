"""The server is not a way in: each refusal of the gate, and what it lets through."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.functional.api.live import PREFIX, Live, running

from yaffle.api.auth import read_identity
from yaffle.config import ServerSettings
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError

TOKEN = "0123456789abcdef0123456789abcdef"
HEADERS = [
    pytest.param({"Host": "evil.example"}, 421, id="other-host"),
    pytest.param({"Host": "127.0.0.1.evil.example"}, 421, id="rebinding-name"),
    pytest.param({"Host": "10.0.0.1"}, 421, id="other-address"),
    pytest.param({"Host": "localhost@evil.example"}, 421, id="user-part"),
    pytest.param({"Host": ""}, 421, id="empty"),
    pytest.param({"Host": "[::1"}, 421, id="half-bracket"),
    pytest.param({"Origin": "http://evil.example"}, 403, id="foreign-origin"),
    pytest.param({"Origin": "null"}, 403, id="null-origin"),
    pytest.param({"Origin": "http://localhost:1"}, 403, id="other-port"),
    pytest.param({"Sec-Fetch-Site": "cross-site"}, 403, id="cross-site"),
    pytest.param({"Sec-Fetch-Site": "same-site"}, 403, id="same-site"),
    pytest.param({"Host": "localhost"}, 200, id="localhost"),
    pytest.param({"Host": "LOCALHOST.:8777"}, 200, id="localhost-spelt-otherwise"),
    pytest.param({"Host": "[::1]:8777"}, 200, id="v6-loopback"),
    pytest.param({"Host": "127.1.2.3"}, 200, id="any-loopback"),
    pytest.param({"Host": "yaffle.example:80"}, 200, id="allowed-host"),
    pytest.param({"Host": "localhost", "Origin": "http://localhost"}, 200, id="own-origin"),
    pytest.param({"Sec-Fetch-Site": "same-origin"}, 200, id="same-origin"),
    pytest.param({"Sec-Fetch-Site": "none"}, 200, id="typed-by-hand"),
]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with a small body limit and one more name."""
    path = tmp_path_factory.mktemp("gate")
    server = {"max_body": 1000, "allowed_hosts": ("Yaffle.example",)}
    with running(path / "state", server=server) as live:
        yield live


@pytest.mark.parametrize(("headers", "status"), HEADERS)
@pytest.mark.parametrize("path", [PREFIX, "/health", "/metrics", "/nowhere"])
def test_where_a_request_comes_from(
    guarded: Live, headers: dict[str, str], status: int, path: str
) -> None:
    with guarded.client(headers) as client:
        answer = client.get(path)
    if status == 200:
        assert answer.status_code in {200, 300, 404, 503}
    else:
        assert answer.status_code == status
        assert answer.json()["error"]["code"] == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-request-id"].startswith("req-")
    assert "server" not in answer.headers


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        pytest.param(b"GET /yaffle/v1 HTTP/1.0\r\n\r\n", b"400", id="no-host"),
        pytest.param(
            b"GET /yaffle/v1 HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
            b"400",
            id="two-hosts",
        ),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400", id="tls"),
    ],
)
def test_what_no_client_would_send(guarded: Live, raw: bytes, status: bytes) -> None:
    assert exchange(guarded, raw).split(b" ")[1] == status


def test_headers_have_a_bound(guarded: Live) -> None:
    host, port = guarded.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as sock:
        sock.sendall(b"GET /yaffle/v1 HTTP/1.1\r\nHost: localhost\r\nX: ")
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 50_000_000:
                sent += sock.send(b"a" * 65536)
    assert sent < 50_000_000


def test_a_body_is_refused_before_it_is_read(guarded: Live) -> None:
    head = (
        b"POST /yaffle/v1/stop HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: 1001\r\n\r\n"
    )
    answer = exchange(guarded, head)
    assert b" 413 " in answer.split(b"\r\n")[0]
    assert b"server.max_body = 1000" in answer


def test_a_chunked_body_ends_at_the_limit(guarded: Live) -> None:
    with guarded.client({"Content-Type": "application/json"}) as client:
        chunks = (b'{"reason": "', *(b"x" * 100 for _ in range(10)), b'"}')
        answer = client.post(f"{PREFIX}/stop", content=iter(chunks))
    assert answer.status_code == 413, answer.text
    assert answer.json()["error"]["type"] == "BodyTooLarge"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_a_form_cannot_change_anything(guarded: Live, method: str, kind: str) -> None:
    with guarded.client({"Content-Type": kind} if kind else {}) as client:
        answer = client.request(method, f"{PREFIX}/stop", content=b'{"reason": "csrf"}')
    assert answer.status_code == 415
    assert guarded.call("GET", "/stop")["stopped"] is False


def test_no_body_needs_no_media_type(guarded: Live) -> None:
    with guarded.client() as client:
        assert client.post(f"{PREFIX}/outbox/redeliver").json() == {"redelivered": 0}


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that needs tokens, on every address."""
    path = tmp_path_factory.mktemp("locked")
    file = token_file(path, f"# people\nmara:{TOKEN}\n\nfedcba9876543210\n")
    with running(path / "state", server={"listen": "0.0.0.0:0", "token_file": file}) as live:
        live.address = live.address.replace("0.0.0.0", "127.0.0.1")
        live.headers = {"Authorization": f"Bearer {TOKEN}"}
        yield live


def token_file(path: Path, text: str, mode: int = 0o600) -> Path:
    file = path / "tokens"
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param("Bearer", id="no-token"),
        pytest.param(f"Bearer {TOKEN[:-1]}", id="short"),
        pytest.param(f"Bearer {TOKEN}0", id="long"),
        pytest.param(f"Basic {TOKEN}", id="other-scheme"),
        pytest.param("Bearer \xff\xfe", id="no-ascii"),
        pytest.param(f"Bearer mara:{TOKEN}", id="whole-line"),
    ],
)
@pytest.mark.parametrize(
    "path", [PREFIX, f"{PREFIX}/nodes", "/metrics", "/yaffle/nowhere", "/v1/nowhere", "/health/"]
)
def test_without_a_token_there_is_nothing(locked: Live, given: str | None, path: str) -> None:
    header = {} if given is None else {"Authorization": given}
    raw = "".join(f"{k}: {v}\r\n" for k, v in header.items()).encode("latin-1")
    answer = exchange(
        locked, b"GET " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\n" + raw + b"\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"www-authenticate: Bearer" in answer
    assert TOKEN.encode() not in answer


def test_health_needs_no_token(locked: Live) -> None:
    answer = exchange(locked, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 503 ")  # no engine runs here
    assert b"application/health+json" in answer


def test_a_token_names_who_asks(locked: Live) -> None:
    with locked.client({"X-Yaffle-User": "somebody else"}) as client:
        client.post(f"{PREFIX}/stop", json={"reason": "x", "by": "root"}).raise_for_status()
    assert locked.call("GET", "/stop")["stops"][0]["owner"] == "mara"
    with locked.client({"Authorization": "bearer fedcba9876543210"}) as client:
        client.delete(f"{PREFIX}/stop").raise_for_status()
    past = locked.call("GET", "/stop?all=true")["stops"]
    assert past[0]["lifted_by"] == "token on line 4"


@pytest.mark.parametrize("listen", ["0.0.0.0:8777", "[::]:8777", "192.0.2.1:80", "example.org:80"])
def test_an_open_address_needs_tokens(listen: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.token_file"):
        read_identity(ServerSettings(listen=listen), SystemClock())


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "localhost:0", "[::1]:0", "127.8.8.8:1"])
def test_loopback_needs_none(listen: str) -> None:
    assert read_identity(ServerSettings(listen=listen), SystemClock()).challenges == ()


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        pytest.param(f"mara:{TOKEN}", 0o644, "chmod 600", id="readable-by-all"),
        pytest.param(f"mara:{TOKEN}", 0o620, "chmod 600", id="writable-by-group"),
        pytest.param("mara:short", 0o600, "line 1", id="short"),
        pytest.param(f":{TOKEN}", 0o600, "line 1", id="no-name"),
        pytest.param("\n# nothing\n", 0o600, "0 tokens", id="empty"),
    ],
)
def test_token_files_that_are_refused(tmp_path: Path, text: str, mode: int, said: str) -> None:
    file = token_file(tmp_path, text, mode)
    with pytest.raises(ConfigError, match=said) as error:
        read_identity(ServerSettings(token_file=file), SystemClock())
    assert TOKEN not in str(error.value)


def test_a_token_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_identity(ServerSettings(token_file=tmp_path / "none"), SystemClock())


def exchange(live: Live, raw: bytes) -> bytes:
    """Send bytes and return the answer, read until it is whole or the server closes."""
    host, port = live.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as sock:
        sock.sendall(raw)
        answer = sock.recv(65536)
        # Not before: who ends a request and goes in one breath may be answered by nobody.
        sock.shutdown(socket.SHUT_WR)
        while chunk := sock.recv(65536):
            answer += chunk
    return answer
