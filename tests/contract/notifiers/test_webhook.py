"""The webhook notifier against receivers of every manner, and against names that lead astray."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
import structlog
from tests.contract.notifiers.clock import START_US, SetClock
from tests.contract.notifiers.receiver import Manner, Receiver, raw, receiver, reset, say
from tests.given import Given
from tests.private import private

from yaffle.drivers.notifiers.webhook import WebhookNotifier
from yaffle.errors import ConfigError
from yaffle.integrations.signing import verify
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext
from yaffle.ports.notifier import Message

SECRET = "a-secret-of-the-receiver"
NEWS = Message(
    id="6f0c-1",
    topic="incident.opened",
    at_us=START_US + 5,
    body={"node": "n1"},
    attempt=3,
    sequence=7,
)


def notifier(
    tmp_path: Path,
    url: str,
    *,
    deny: tuple[str, ...] | None = None,
    allow: tuple[str, ...] = (),
    **settings: object,
) -> WebhookNotifier:
    # Patient: a receiver of this process may be held up with it.
    given: Mapping[str, object] = {"url": url, "secret": SECRET, "timeout": 60, **settings}
    return WebhookNotifier(
        DriverContext(
            clock=SetClock(),
            state_dir=tmp_path,
            settings=given,
            deny_networks=deny,
            allow_networks=allow,
        )
    )


def send(
    driver: WebhookNotifier, message: Message = NEWS, deadline_s: float = 60
) -> tuple[Delivery, str]:
    return asyncio.run(driver.send(message, deadline_s=deadline_s))


def test_one_message_as_documented(tmp_path: Path) -> None:
    with receiver(say(204)) as there:
        driver = notifier(tmp_path, there.url + "/hook?a=b", headers={"Authorization": "Bearer t"})
        assert send(driver) == (Delivery.ACCEPTED, "204 No Content")
    (seen,) = there.seen
    assert (seen.method, seen.path) == ("POST", "/hook?a=b")
    assert json.loads(seen.body) == {
        "id": "6f0c-1",
        "topic": "incident.opened",
        "at": "2027-01-15T08:00:00.000005Z",
        "attempt": 3,
        "sequence": 7,
        "data": {"node": "n1"},
    }
    assert seen.headers["Idempotency-Key"] == "6f0c-1"
    assert seen.headers["Authorization"] == "Bearer t"
    assert seen.headers["Host"] == f"127.0.0.1:{there.port}"
    assert verify(SECRET.encode(), seen.headers, seen.body, now_s=START_US / 1e6) == "6f0c-1"


@pytest.mark.parametrize(
    ("manner", "delivery", "line"),
    [
        pytest.param(say(200), Delivery.ACCEPTED, "200 OK", id="200"),
        pytest.param(say(202), Delivery.ACCEPTED, "202 Accepted", id="202"),
        pytest.param(say(408), Delivery.RETRY, "408 Request Timeout", id="408"),
        pytest.param(say(425), Delivery.RETRY, "425 Too Early", id="425"),
        pytest.param(
            say(429, Retry_After="120"),
            Delivery.RETRY,
            "429 Too Many Requests, Retry-After: 120",
            id="429",
        ),
        pytest.param(say(500), Delivery.RETRY, "500 Internal Server Error", id="500"),
        pytest.param(
            say(503, Retry_After="30"),
            Delivery.RETRY,
            "503 Service Unavailable, Retry-After: 30",
            id="503",
        ),
        pytest.param(say(599), Delivery.RETRY, "599", id="599"),
        pytest.param(say(400), Delivery.REFUSED, "400 Bad Request", id="400"),
        pytest.param(say(410), Delivery.REFUSED, "410 Gone", id="410"),
        pytest.param(raw(b"SSH-2.0-OpenSSH_9\r\n"), Delivery.RETRY, "not valid HTTP", id="ssh"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\nContent-Le"), Delivery.RETRY, "", id="cut-short"),
        pytest.param(raw(b""), Delivery.RETRY, "", id="closed"),
        pytest.param(reset, Delivery.RETRY, "", id="reset"),
        pytest.param(
            raw(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 100_000),
            Delivery.RETRY,
            "",
            id="endless-headers",
        ),
        pytest.param(say(200, b"x" * 5_000_000), Delivery.ACCEPTED, "200 OK", id="huge-body"),
    ],
)
def test_what_each_answer_means(
    tmp_path: Path, manner: Manner, delivery: Delivery, line: str
) -> None:
    with receiver(manner) as there:
        got, said = send(notifier(tmp_path, there.url))
    assert got is delivery, said
    assert line in said
    assert "\n" not in said
    assert len(there.seen) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(tmp_path: Path, status: int) -> None:
    with receiver() as elsewhere, receiver(say(status, Location=elsewhere.url)) as there:
        got, line = send(notifier(tmp_path, there.url))
        assert (got, "redirects are not followed" in line) == (Delivery.REFUSED, True)
        assert elsewhere.seen == []


@pytest.mark.parametrize("manner", [Receiver.hang, Receiver.drip])
def test_silence_and_drip_end_at_the_deadline(tmp_path: Path, manner: object) -> None:
    with receiver() as there:
        there.manners = [manner.__get__(there)]  # type: ignore[attr-defined]
        with Given() as time_given:
            got, line = send(notifier(tmp_path, there.url), deadline_s=0.4)
            assert time_given.s < 3
    assert (got, line) == (Delivery.RETRY, "no whole answer within 0.4 s")


def test_the_setting_bounds_a_longer_deadline(tmp_path: Path) -> None:
    with receiver() as there:
        there.manners = [there.hang]
        got, line = send(notifier(tmp_path, there.url, timeout=0.3), deadline_s=30)
    assert (got, line) == (Delivery.RETRY, "no whole answer within 0.3 s")


def test_nobody_there_is_worth_another_try(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        got, line = send(notifier(tmp_path, f"http://127.0.0.1:{held.getsockname()[1]}"))
    assert got is Delivery.RETRY
    assert line
    got, line = send(notifier(tmp_path, "http://no-such-name.invalid/"))
    assert got is Delivery.RETRY


@pytest.mark.parametrize(
    ("host", "deny", "allow"),
    [
        pytest.param("127.0.0.1", ("127.0.0.0/8",), (), id="literal"),
        pytest.param("localhost", ("127.0.0.0/8", "::1/128"), (), id="name-of-a-denied-address"),
        pytest.param("[::ffff:127.0.0.1]", ("127.0.0.0/8",), (), id="ipv4-mapped"),
        pytest.param("2130706433", ("127.0.0.0/8",), (), id="decimal"),
        pytest.param("127.1", ("127.0.0.0/8",), (), id="short"),
        pytest.param("0.0.0.0", (), (), id="this-host"),
        pytest.param("127.0.0.1", None, ("10.0.0.0/8",), id="not-allowed"),
    ],
)
def test_denied_addresses_are_not_connected_to(
    tmp_path: Path, host: str, deny: tuple[str, ...] | None, allow: tuple[str, ...]
) -> None:
    with receiver() as there:
        url = f"http://{host}:{there.port}/"
        got, line = send(notifier(tmp_path, url, deny=deny, allow=allow))
        assert got is Delivery.RETRY
        assert "address refused" in line
        assert there.seen == []


class RebindingLoop(asyncio.SelectorEventLoop):
    """Resolves `rebind.test` to a harmless address once, and to a denied one from then on."""

    asked = 0

    async def getaddrinfo(self, host, port, **kw):  # type: ignore[no-untyped-def, override]
        if host not in {"rebind.test", b"rebind.test"}:
            return await super().getaddrinfo(host, port, **kw)
        self.asked += 1
        address = "127.0.0.1" if self.asked == 1 else "127.0.0.2"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]


def test_a_name_that_changes_between_check_and_connect_gains_nothing(tmp_path: Path) -> None:
    with receiver() as there, socket.socket() as denied:
        denied.bind(("127.0.0.2", there.port))
        denied.listen()
        denied.setblocking(False)
        driver = notifier(tmp_path, f"http://rebind.test:{there.port}/", deny=("127.0.0.2/32",))
        with asyncio.Runner(loop_factory=RebindingLoop) as runner:
            assert runner.run(driver.send(NEWS, deadline_s=60))[0] is Delivery.ACCEPTED
            got, line = runner.run(driver.send(NEWS, deadline_s=60))
        assert (got, "address refused" in line) == (Delivery.RETRY, True)
        assert there.seen[0].headers["Host"] == f"rebind.test:{there.port}"
        with pytest.raises(BlockingIOError):
            denied.accept()


def test_an_endless_answer_is_not_read_to_its_end(tmp_path: Path) -> None:
    with receiver() as there:
        there.manners = [there.flood]
        with Given() as time_given:
            assert send(notifier(tmp_path, there.url))[0] is Delivery.ACCEPTED
            assert time_given.s < 4


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1]", "[fd00:ec2::254]"]
)
def test_the_metadata_service_is_out_of_reach_by_default(tmp_path: Path, host: str) -> None:
    got, line = send(notifier(tmp_path, f"http://{host}/latest/meta-data"), deadline_s=2)
    assert got is Delivery.RETRY
    assert "which is denied" in line


def test_proxies_of_the_environment_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as proxy, receiver() as there:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert send(notifier(tmp_path, there.url))[0] is Delivery.ACCEPTED
        assert (len(proxy.seen), len(there.seen)) == (0, 1)


def test_tls_checks_the_name_and_trusts_the_given_authority_alone(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    cert, key = certificate
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    names: list[str | None] = []
    tls.sni_callback = lambda sock, name, context: names.append(name)

    def wrap(sock: socket.socket) -> socket.socket:
        return tls.wrap_socket(sock, server_side=True)

    with receiver(wrap=wrap) as there:
        good = f"https://localhost:{there.port}/"
        assert send(notifier(tmp_path, good, ca_file=str(cert)))[0] is Delivery.ACCEPTED
        # The connection goes to an address, but SNI and Host keep the name.
        assert names == ["localhost"]
        assert there.seen[0].headers["Host"] == f"localhost:{there.port}"
        assert send(notifier(tmp_path, good))[0] is Delivery.RETRY
        by_address = f"https://127.0.0.1:{there.port}/"
        got, line = send(notifier(tmp_path, by_address, ca_file=str(cert)))
        assert got is Delivery.RETRY
        assert "certificate" in line.lower()
        assert len(there.seen) == 1


def test_secrets_reach_neither_log_nor_line_nor_repr(tmp_path: Path) -> None:
    token = "token-for-the-receiver"
    with (
        receiver(say(400, f"{SECRET} {token}".encode())) as there,
        structlog.testing.capture_logs() as logs,
    ):
        url = f"{there.url}/hidden-path"
        driver = notifier(tmp_path, url, headers={"Authorization": token})
        told = f"{send(driver)} {driver.post.settings!r} {logs}"
    assert there.seen[0].headers["Authorization"] == token
    for hidden in (SECRET, token, "hidden-path"):
        assert hidden not in told


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"url": "http://h/", "secret": SECRET, "sekret": 1}, "notifiers.webhook.sekret"),
        ({"secret": SECRET}, "notifiers.webhook.url"),
        ({"url": "ftp://h/", "secret": SECRET}, "notifiers.webhook.url"),
        ({"url": "http://u:p@h/", "secret": SECRET}, "notifiers.webhook.url"),
        ({"url": "http://h/"}, "notifiers.webhook.secret"),
        ({"url": "http://h/", "secret": "short"}, "notifiers.webhook.secret"),
        ({"url": "http://h/", "secret": SECRET, "secret_env": "X"}, "notifiers.webhook.secret"),
        ({"url": "http://h/", "secret_file": "/nowhere/at/all"}, "secret_file"),
        ({"url": "http://h/", "secret": SECRET, "timeout": "1"}, "notifiers.webhook.timeout"),
        ({"url": "http://h/", "secret": SECRET, "timeout": 1e9}, "notifiers.webhook.timeout"),
        ({"url": "http://h/", "secret": SECRET, "headers": {"a": "b\r\nc: d"}}, "headers.a"),
        ({"url": "http://h/", "secret": SECRET, "headers": {"Host": "b"}}, "headers.Host"),
        ({"url": "http://h/", "secret": SECRET, "ca_file": "/nowhere/at/all"}, "ca_file"),
    ],
)
def test_wrong_settings_are_named_without_secrets(
    tmp_path: Path, settings: dict[str, object], named: str
) -> None:
    context = DriverContext(clock=SetClock(), state_dir=tmp_path, settings=settings)
    with pytest.raises(ConfigError) as error:
        WebhookNotifier(context)
    assert named in str(error.value)
    assert SECRET not in str(error.value)


def test_the_secret_may_come_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    private(file, SECRET + "\n")
    monkeypatch.setenv("RECEIVER_SECRET", SECRET)
    for source in ({"secret_file": str(file)}, {"secret_env": "RECEIVER_SECRET"}):
        with receiver() as there:
            context = DriverContext(
                clock=SetClock(), state_dir=tmp_path, settings={"url": there.url, **source}
            )
            send(WebhookNotifier(context))
        (seen,) = there.seen
        assert verify(SECRET.encode(), seen.headers, seen.body, now_s=START_US / 1e6)


@pytest.mark.parametrize(
    "message",
    [
        Message(id="a.b", topic="t", at_us=0, body={}, attempt=1, sequence=1),
        Message(id="a", topic="t", at_us=0, body={"x": object()}, attempt=1, sequence=1),
        Message(id="a", topic="t", at_us=0, body={"x": float("nan")}, attempt=1, sequence=1),
    ],
)
def test_what_cannot_be_sent_is_refused_not_raised(tmp_path: Path, message: Message) -> None:
    with receiver() as there:
        assert send(notifier(tmp_path, there.url), message)[0] is Delivery.REFUSED
    assert there.seen == []
