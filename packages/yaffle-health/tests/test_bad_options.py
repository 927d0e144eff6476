"""What cannot be meant is a BadOption that names option and value; and nobody else's error, ever."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yaffle_health import asgi, wsgi
from yaffle_health.endpoint import serve
from yaffle_health.errors import BadOption, BadUri
from yaffle_health.manager import Manager
from yaffle_health.model import Status
from yaffle_health.server import Endpoint
from yaffle_health.uris import parse

OF_THE_ENDPOINT = [
    ("uri", ["tcp://127.0.0.1:1"], "uri"),
    ("uri", b"tcp://127.0.0.1:1", "uri"),
    ("uri", 5, "uri"),
    ("uri", "tcp://localhost:" + "9" * 5000, "uri"),
    ("ttl_s", "300", "ttl"),
    ("ttl_s", None, "ttl"),
    ("ttl_s", True, "ttl"),
    ("ttl_s", float("nan"), "ttl"),
    pytest.param("ttl_s", 10**5000, "ttl", id="ttl_s-huge"),
    ("cache_control", "10", "cache_control"),
    ("timeout_s", "5", "timeout"),
    ("timeout_s", None, "timeout"),
    ("timeout_s", 1e300, "timeout"),
    ("max_connections", "x", "max_connections"),
    ("max_connections", None, "max_connections"),
    ("max_connections", 1.5, "max_connections"),
    ("socket_mode", "0660", "socket_mode"),
    ("socket_group", 1.5, "socket_group"),
    ("socket_group", True, "socket_group"),
    ("socket_group", -5, "socket_group"),
    ("socket_group", 2**40, "socket_group"),
    pytest.param("socket_group", 10**5000, "socket_group", id="socket_group-huge"),
    ("socket_group", "a\0b", "socket_group"),
    ("group", 5, "group"),
    ("notify_group", 5, "notify_group"),
    ("format", [], "format"),
    ("after_fork", [], "after_fork"),
    ("activation", 5, "activation"),
    ("tickers", 5, "tickers"),
    ("tickers", [5], "tickers"),
]


@pytest.mark.parametrize(("keyword", "value", "option"), OF_THE_ENDPOINT)
def test_serve_never_raises_for_what_cannot_be_meant(
    keyword: str, value: object, option: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, object] = {"uri": f"unix://{tmp_path}/x.sock"} | {keyword: value}
    endpoint = serve(Manager(), **options)  # type: ignore[arg-type]
    (failure,) = endpoint.failures
    assert isinstance(failure, BadOption)
    assert failure.option == option
    assert not endpoint.running
    assert list(tmp_path.iterdir()) == []
    (record,) = caplog.records
    assert record.getMessage().startswith(f"[healthcheck] {option} = ")
    with pytest.raises(BadOption):
        serve(Manager(), required=True, **options)  # type: ignore[arg-type]


def test_no_uri_is_an_empty_one() -> None:
    endpoint = serve(Manager(), uri=None)
    assert (endpoint.running, endpoint.failures) == (False, ())


def test_a_source_that_is_none() -> None:
    endpoint = serve("nobody", uri="tcp://127.0.0.1:1")  # type: ignore[arg-type]
    assert "'nobody'" in str(endpoint.failures[0])
    for app in (asgi.HealthApp, wsgi.HealthApp):
        with pytest.raises(BadOption, match="source"):
            app(source="nobody")  # type: ignore[arg-type]


@pytest.mark.parametrize("app", [asgi.HealthApp, wsgi.HealthApp])
@pytest.mark.parametrize(
    ("keyword", "value", "option"),
    [("ttl_s", "3", "ttl"), ("path", 5, "path"), ("group", 5, "group"), ("format", 5, "format")],
)
def test_an_app_is_refused_where_it_is_made(
    app: Callable[..., object], keyword: str, value: object, option: str
) -> None:
    with pytest.raises(BadOption) as refused:
        app(source=Manager(), **{keyword: value})
    assert (refused.value.option, refused.value.value) == (option, value)


@pytest.mark.parametrize(
    ("keyword", "value", "option"),
    [
        ("description", 5, "description"),
        ("host", b"x", "host"),
        ("service_id", 7, "service_id"),
        ("hostname", [], "hostname"),
        ("release", 1.0, "release"),
        ("ttl_s", "3", "ttl"),
        ("items_max", "x", "items_max"),
        ("names", "abc", "names"),
        ("names", 5, "names"),
        ("names", [5], "names"),
        ("groups", {"ready": "db"}, "groups"),
        ("groups", ["ready"], "groups"),
        ("groups", {"ready": 5}, "groups"),
    ],
)
def test_a_manager_is_refused_where_it_is_made(keyword: str, value: object, option: str) -> None:
    with pytest.raises(BadOption) as refused:
        Manager(**{keyword: value})  # type: ignore[arg-type]
    assert refused.value.option == option


def test_the_letters_of_a_group_are_no_groups() -> None:
    manager = Manager()
    for groups in ("live", b"live", 5, [["live"]]):
        with pytest.raises(BadOption, match="groups"):
            manager.register("loop", groups=groups)  # type: ignore[arg-type]
    assert manager.groups == {"live", "ready", "start"}


@pytest.mark.parametrize(
    "given",
    [
        {"name": ["a"]},
        {"name": None},
        {"name": {}, "names": True},
        {"name": "a", "component_id": ["x"]},
        {"name": "a", "component_id": 5},
        {"name": "a", "component_type": 5},
        {"name": "a", "ttl_s": "5"},
    ],
)
def test_a_report_that_cannot_be_meant(given: dict[str, object]) -> None:
    manager = Manager(names=["a"] if given.pop("names", None) else None)
    with pytest.raises(BadOption):
        manager.report(status="fail", output="x", **given)  # type: ignore[arg-type]
    assert manager.health().checks == ()


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (ValueError("at mysql://u:hunter2@db\nand more"), "ValueError: at mysql://***@db"),
        (Unprintable(), "Unprintable"),
        (OSError(), "OSError"),
        (b"password=hunter2 \xff", "password=***"),
        (42, "42"),
        (["a", 1], "['a', 1]"),
        pytest.param(10**5000, "int", id="huge"),
        (None, "no reason was given"),
        ("", "no reason was given"),
    ],
)
def test_whoever_reports_a_failure_gets_no_second_one(output: object, shown: str) -> None:
    manager = Manager()
    manager.report("db", "fail", output)  # type: ignore[arg-type]
    (check,) = manager.health().checks
    assert check.output is not None
    assert check.output.removesuffix(" \N{REPLACEMENT CHARACTER}") == shown


def test_an_error_is_reported_as_a_decorator_does_it() -> None:
    manager = Manager(error_messages=False)
    manager.report("db", Status.FAIL, ValueError("hunter2"))
    assert manager.health().checks[0].output == "ValueError"


@given(st.text(max_size=80))
def test_no_text_makes_the_reader_of_addresses_raise_anything_else(text: str) -> None:
    for entry in (text, f"tcp://{text}", f"unix://{text}", f"tcp://h:{text}", f"tcp://[{text}]:1"):
        try:
            parse(entry)
        except BadUri as refused:
            assert str(refused)  # noqa: PT017


@pytest.mark.parametrize(
    "uri",
    [
        "tcp://user:hun/ter2@localhost:80",
        "tcp://user:hunter2 x@localhost:80",
        'tcp://user:"hunter2"@localhost:80',
        "tcp://user:hunter2@x@localhost:80",
        "unix://u:hunter2@/run/x.sock",
    ],
)
def test_no_message_holds_a_password(uri: str) -> None:
    with pytest.raises(BadUri) as refused:
        parse(uri)
    for shown in (str(refused.value), refused.value.why, refused.value.shown):
        assert "ter2" not in shown


def test_a_group_that_nobody_has_declared_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    manager = Manager(groups={"mine": ["a"]})
    for group in ("mine", "live", None):
        serve(manager, uri="", group=group)
    assert not caplog.records
    serve(manager, uri="", group="typo")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "group = 'typo'" in record.getMessage()
    assert "live, mine, ready, start" in record.getMessage()
    for app in (asgi.HealthApp, wsgi.HealthApp):
        caplog.clear()
        app(source=manager, group="typo")
        assert "group = 'typo'" in caplog.text


def test_a_time_to_live_of_ages_is_no_header_of_ages() -> None:
    Endpoint(Manager().health, ttl_s=31_557_600_000, cache_control=2**63)
