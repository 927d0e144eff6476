"""Every way in which a real server can behave or misbehave ends in its own row of the outcome table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.prober import servers
from tests.contract.prober.live import LiveProber
from tests.contract.prober.servers import Behaviour, Server, answer, says

OK = answer()
HEALTH = "Content-Type: application/health+json\r\n"
CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
CHUNKS = (CHUNKED + "2\r\nhe\r\n4;x=y\r\nalth\r\n0\r\nX-Sum: 1\r\n\r\n").encode()


@pytest.fixture(scope="module")
def prober() -> Iterator[LiveProber]:
    with LiveProber() as live:
        yield live


ROWS = [
    pytest.param(says(OK), "L7-OK", {}, id="200"),
    pytest.param(says(answer(b"", "204 No Content")), "L7-OK", {}, id="204"),
    pytest.param(says(b"HTTP/1.1 204 No Content\r\n\r\n"), "L7-OK", {}, id="204-without-length"),
    pytest.param(says(b"HTTP/1.0 200 OK\r\n\r\nold"), "L7-OK", {}, id="http-1.0"),
    pytest.param(says(b"HTTP/1.1 200 OK\r\n\r\nto the end"), "L7-OK", {}, id="close-delimited"),
    pytest.param(says(b"HTTP/1.0 200 OK\nContent-Length: 2\n\nok"), "L7-OK", {}, id="bare-lf"),
    pytest.param(says(CHUNKS), "L7-OK", {"healthy_response": "^health$"}, id="chunked-trailers"),
    pytest.param(says(b"HTTP/1.1 102 P\r\n\r\n" * 3 + OK), "L7-OK", {}, id="interim-skipped"),
    pytest.param(servers.pieces(OK, 1, 0.02), "L7-OK", {}, id="drip"),
    pytest.param(servers.pieces(OK, 12, 0.05), "L7-OK", {}, id="split"),
    pytest.param(servers.pieces(CHUNKS, 7, 0.01), "L7-OK", {}, id="chunked-split"),
    pytest.param(servers.pieces(OK, 1, 0.1), "L7-TIMEOUT", {"timeout_s": 0.3}, id="drip-too-slow"),
    pytest.param(servers.silent, "L7-TIMEOUT", {"timeout_s": 0.3}, id="never-answers"),
    pytest.param(servers.closes, "L7-CLOSED", {}, id="closes"),
    pytest.param(servers.resets(), "L7-RESET", {}, id="resets"),
    pytest.param(servers.resets(OK[:20]), "L7-SHORT", {}, id="resets-inside"),
    pytest.param(says(OK[:-1]), "L7-SHORT", {}, id="short-body"),
    pytest.param(says(OK[:20]), "L7-SHORT", {}, id="short-headers"),
    pytest.param(says(CHUNKS[:-4]), "L7-SHORT", {}, id="short-chunks"),
    pytest.param(says((CHUNKED + "zz\r\n").encode()), "L7-INVALID", {}, id="bad-chunk"),
    pytest.param(says(b"SSH-2.0-OpenSSH_9.2\r\n"), "L7-INVALID", {}, id="garbage"),
    pytest.param(says(b"<html>hello</html>"), "L7-INVALID", {}, id="http-0.9"),
    pytest.param(says(b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
                 "L7-STATUS", {}, id="101"),
    pytest.param(says(answer(b"x" * 600_000)), "L7-TOO-LARGE", {}, id="huge-body"),
    pytest.param(servers.endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 9999), "L7-TOO-LARGE", {},
                 id="endless-body"),
    pytest.param(servers.endless(b"HTTP/1.1 200 OK\r\n", b"X-Y: zzzzzzzzzzzzzzzzz\r\n"),
                 "L7-TOO-LARGE", {}, id="endless-headers"),
    pytest.param(servers.endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "L7-TOO-LARGE", {},
                 id="endless-interim"),
    pytest.param(servers.endless(CHUNKED.encode() + b"1;", b"x" * 9999), "L7-TOO-LARGE", {},
                 id="endless-chunk-extension"),
    pytest.param(says(answer(b"", "302 Found", "Location: /login?token=1\r\n")), "L7-REDIRECT",
                 {}, id="redirect"),
    pytest.param(says(answer(b"", "304 Not Modified")), "L7-STATUS", {}, id="304"),
    pytest.param(says(answer(b"ok", "503 Service Unavailable")), "L7-STATUS", {}, id="503"),
    pytest.param(says(answer(b"ok", "503 S")[:-1]), "L7-STATUS", {}, id="503-cut-short"),
    pytest.param(says(answer(b"ok", "503 S")), "L7-STATUS", {"healthy_response": "ok"},
                 id="503-although-pattern"),
    pytest.param(says(answer(b"all good\n")), "L7-OK", {"healthy_response": "good$"},
                 id="pattern-dollar-before-last-newline"),
    pytest.param(says(answer(b"\xff good")), "L7-OK", {"healthy_response": "go+d"},
                 id="pattern-not-utf-8"),
    pytest.param(says(answer(b"bad")), "L7-PATTERN", {"healthy_response": "good"}, id="no-match"),
    pytest.param(says(answer(b"aaaa")), "X-BUG", {"healthy_response": "(a"}, id="bad-pattern"),
    pytest.param(says(answer(b'{"status": "UP"}', headers=HEALTH)), "L7-OK", {}, id="health-up"),
    pytest.param(says(answer(b'{"status": "warn"}', headers=HEALTH)), "L7-WARN", {}, id="warn"),
    pytest.param(says(answer(b'{"status": "down"}', "503 S", HEALTH)), "L7-FAIL", {}, id="down"),
    pytest.param(says(answer(b'{"status": "fail"}', headers=HEALTH)), "L7-OK", {},
                 id="code-wins-over-fail"),
    pytest.param(says(answer(b'{"status": "pass"}', "500 S", HEALTH)), "L7-STATUS", {},
                 id="code-wins-over-pass"),
]  # fmt: skip


@pytest.mark.parametrize(("behave", "code", "options"), ROWS)
def test_behaviour_is_row(
    prober: LiveProber, behave: Behaviour, code: str, options: dict[str, object]
) -> None:
    with Server(behave) as server:
        result = prober.probe(server.url, **options)
        assert (result.code, result.node_id) == (code, "n0"), result.detail
        assert result.detail.startswith(f"GET {server.url}: ")
        assert result.detail.isprintable()


def test_details_say_what_happened(prober: LiveProber) -> None:
    health = b'{"status": "fail", "checks": {"db": [{"status": "fail", "output": "no disk"}]}}'
    cases = {
        answer(b"", "302 Found", "Location: /login?token=1\r\n"): "302, redirects to /login (not",
        answer(b"", "503 S"): "503 in ",
        answer(health, "503 S", HEALTH): "503, the document says fail (db: no disk)",
        answer(health, "200 OK", HEALTH): "200, although the document says fail (db: no disk)",
    }
    for data, words in cases.items():
        with Server(says(data)) as server:
            assert words in prober.probe(server.url + "?token=secret").detail
            assert "secret" not in prober.probe(server.url + "?token=secret").detail


def test_refused_and_full_backlog(prober: LiveProber) -> None:
    url = f"http://127.0.0.1:{servers.free_port()}/"
    assert prober.probe(url).code == "L4-REFUSED"
    with servers.Backlog() as full:
        assert prober.probe(full.url, timeout_s=0.4).code == "L4-TIMEOUT"


def test_names(prober: LiveProber) -> None:
    """`localhost` may be ::1 first, where nobody listens: the next address is tried."""
    with Server(says(OK)) as server:
        assert prober.probe(f"http://localhost:{server.port}/").code == "L7-OK"
    # Without any name server this is "could not find out", never a row of its own making.
    assert prober.probe("http://nobody.invalid/", timeout_s=5).code in {"L3-DNS", "X-DNS"}
    assert prober.probe(f"http://{'a' * 64}.example/").code == "X-BAD-URL"


def test_ipv6(prober: LiveProber) -> None:
    try:
        server = Server(says(OK), host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with server:
        assert prober.probe(server.url).code == "L7-OK"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://169.254.169.254/latest/meta-data", "X-REFUSED-ADDRESS"),
        ("http://[::ffff:169.254.169.254]/", "X-REFUSED-ADDRESS"),
        ("http://0xa9fea9fe/", "X-REFUSED-ADDRESS"),
        ("http://[fe80::1%25lo]/", "X-REFUSED-ADDRESS"),
        ("http://0.0.0.0/", "X-REFUSED-ADDRESS"),
        ("http://{node_ip}/", "X-UNEXPANDED"),
        ("ftp://127.0.0.1/", "X-BAD-URL"),
        ("http:///path", "X-BAD-URL"),
        ("http://127.0.0.1:0/", "X-BAD-URL"),
        ("http://127.0.0.1:99999/", "X-BAD-URL"),
        ("http://user:password@127.0.0.1/", "X-BAD-URL"),
        ("http://127.0.0.1/a b", "X-BAD-URL"),
        ("http://127.0.0.1/\r\nX-Evil: 1", "X-BAD-URL"),
        ("http://127.0.0.1/a/%2e%2e/b", "X-BAD-URL"),
        ("http://a%2Fb/", "X-BAD-URL"),
        ("http://[::1/", "X-BAD-URL"),
        ("http://[zz::1]/", "X-BAD-URL"),
        ("http://127.0.0.1/" + "a" * 3000, "X-BAD-URL"),
        ("", "X-BAD-URL"),
    ],
)
def test_urls_that_are_not_asked(prober: LiveProber, url: str, code: str) -> None:
    result = prober.probe(url)
    assert result.code == code, result.detail
    assert result.detail.isprintable()
    assert len(result.detail) <= 400


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certs")
    return {
        "good": servers.certificate(folder, "good", "IP:127.0.0.1,DNS:localhost"),
        "expired": servers.certificate(folder, "expired", "IP:127.0.0.1", expired=True),
        "wrong-name": servers.certificate(folder, "wrong-name", "DNS:elsewhere.example"),
    }


@pytest.fixture(scope="module")
def trusting(certs: dict[str, Path]) -> Iterator[LiveProber]:
    """Trusts all of the test's certificates."""
    bundle = certs["good"].with_name("bundle.pem")
    bundle.write_text("".join(path.read_text() for path in certs.values()))
    with LiveProber(ca_file=str(bundle)) as live:
        yield live


@pytest.mark.parametrize(
    ("cert", "verify", "code", "word"),
    [
        ("good", True, "L7-OK", "200"),
        ("expired", True, "L6-CERT", "expired"),
        ("wrong-name", True, "L6-CERT", "IP address mismatch"),
        ("expired", False, "L7-OK", "200"),
        ("wrong-name", False, "L7-OK", "200"),
    ],
)
def test_certificates(
    trusting: LiveProber, certs: dict[str, Path], cert: str, verify: bool, code: str, word: str
) -> None:
    with Server(servers.over_tls(certs[cert], says(OK))) as server:
        result = trusting.probe(server.url.replace("http", "https", 1), ssl_verify=verify)
        assert result.code == code, result.detail
        assert word in result.detail


def test_tls_goes_wrong(prober: LiveProber, certs: dict[str, Path]) -> None:
    with Server(servers.over_tls(certs["good"], says(OK))) as server:
        https = server.url.replace("http", "https", 1)
        assert prober.probe(https).code == "L6-CERT"  # self-signed, not trusted here
        # TLS on a port that is asked in plain: an alert, or a hang-up, but never a pass.
        assert prober.probe(server.url).code in {"L7-INVALID", "L7-CLOSED", "L7-RESET"}
    for behave, code in [
        (servers.answers_anything(OK), "L6-TLS"),
        (servers.answers_anything(b""), "L6-TLS"),
        (servers.resets_anything, "L6-TLS"),
        (servers.silent, "L6-TIMEOUT"),
    ]:
        with Server(behave) as server:
            https = server.url.replace("http", "https", 1)
            result = prober.probe(https, timeout_s=0.5 if behave is servers.silent else 30)
            assert result.code == code, result.detail


def test_answers_over_tls_in_pieces(trusting: LiveProber, certs: dict[str, Path]) -> None:
    with Server(servers.over_tls(certs["good"], servers.pieces(CHUNKS, 5, 0.01))) as server:
        url = server.url.replace("http", "https", 1)
        assert trusting.probe(url, healthy_response="^health$").code == "L7-OK"
