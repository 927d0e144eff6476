"""Lines of HAProxy's log: what they say in each of its formats, and nothing of anybody else's."""

from __future__ import annotations

import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yaffle.drivers.detectors.load_balancer.syslog_parser import LINE_MAX, Line, read

LEFT = "1 active and 1 backup servers left. 0 sessions active, 0 requeued, 0 remaining in queue."
SAID = (
    # As HAProxy 2.6 wrote them.
    (f"Server web/n1 is DOWN. {LEFT}", "n1", True),
    (f'Server web/n1 is DOWN, reason: Layer4 connection problem, info: "x". {LEFT}', "n1", True),
    (f"Server web/n3 is DOWN via web/n1. {LEFT} Running on backup.", "n3", True),
    (f"Backup Server web/n2 is DOWN. {LEFT}", "n2", True),
    (
        "Server web/n1 is UP. 1 active and 0 backup servers online. 0 sessions requeued.",
        "n1",
        False,
    ),
    ("Server web/n1 is UP/READY (leaving forced maintenance).", "n1", False),
    ("Server web/n1 is DOWN/READY (leaving forced maintenance).", "n1", False),
    ("Server web/n1 is going DOWN for maintenance. 0 active.", "n1", False),
    ("Server web/n1 was DOWN and now enters maintenance.", "n1", False),
    ("Server web/n1 enters drain state. 1 active and 1 backup servers online.", "n1", False),
    ("Server web/n1 is UP (leaving forced drain).", "n1", False),
    (
        "Health check for server web/n1 failed, reason: Layer4 connection problem, status: 0/2 DOWN.",
        "n1",
        False,
    ),
    (
        "Health check for backup server web/n2 succeeded, reason: x, duration: 0ms, status: 2/2 UP.",
        "n2",
        False,
    ),
)
HEADS = {
    "local": "<133>Nov 21 10:05:55 haproxy[13752]: ",
    "one-digit day": "<133>Nov  1 10:05:55 haproxy[13752]: ",
    "rfc3164": "<133>Nov 21 10:05:55 lb-1.example.org haproxy[13752]: ",
    "rfc5424": "<133>1 2026-11-21T10:05:55.714052+00:00 - haproxy 13752 - - ",
    "rfc5424 with data": '<133>1 2026-11-21T10:05:55.714052Z lb haproxy 1 - [a@1 b="c"] ',
    "priority": "<133>",
    "short": "<5>",
    "timed": "<5>2026-11-21T10:05:55.714068+00:00 ",
    "iso": "2026-11-21T10:05:55.714071+00:00 ",
    "raw": "",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS.keys())
@pytest.mark.parametrize(("text", "server", "down"), SAID)
def test_what_haproxy_says_of_a_server(head: str, text: str, server: str, down: bool) -> None:
    line = Line(pool="web", server=server, down=down)
    assert read(f"{head}{text}\n".encode()) == line
    assert read(f"{head}{text}".encode()) == line


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("backend web has no server available!", id="of a backend"),
        pytest.param("Proxy web started.", id="of a proxy"),
        # Whoever asks for such a path has it written into the log of requests.
        pytest.param(
            "127.0.0.1:1 [21/Nov/2026:10:05:55.1] f web/n1 0/0/0/0/0 200 1 - - ---- 1/1/0/0/0 0/0 "
            '"GET /?x: Server web/n1 is DOWN, HTTP/1.1"',
            id="of a request",
        ),
        pytest.param("Server web/n1", id="cut off"),
        pytest.param("Server web n1 is DOWN.", id="no pool"),
        pytest.param("Server web/n\x001 is DOWN.", id="a name that is none"),
        pytest.param(f"Server web/{'n' * 129} is DOWN.", id="a long name"),
        pytest.param("Server /n1 is DOWN.", id="an empty name"),
        pytest.param("server web/n1 is DOWN.", id="not its words"),
    ],
)
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS.keys())
def test_what_is_said_of_nothing(head: str, text: str) -> None:
    assert read(f"{head}{text}\n".encode()) is None


@given(st.binary(max_size=LINE_MAX))
def test_whatever_comes_is_read(data: bytes) -> None:
    assert read(data) is None or isinstance(read(data), Line)


PIECES = st.sampled_from(
    [*HEADS.values(), "Server ", "Backup ", "web", "/", "n1", " is DOWN", ". ", "[", "]", "<", "1 "]
)


@given(st.lists(PIECES | st.text(max_size=8), max_size=40).map("".join))
def test_pieces_of_lines_are_read(text: str) -> None:
    line = read(text.encode(errors="replace")[:LINE_MAX])
    if line is not None:
        assert f"erver {line.pool}/{line.server} " in text
        assert not line.down or f"{line.pool}/{line.server} is DOWN" in text


@pytest.mark.parametrize(
    "data",
    [
        b"<1>1 " + b"a" * LINE_MAX,
        b"<133>1 t h a p m " + b"[" * LINE_MAX,
        b"<133>Nov 21 10:05:55 " + b"a." * (LINE_MAX // 2),
        b"Server " + b"a" * LINE_MAX,
        b"Server " + b"a/" * (LINE_MAX // 2),
    ],
)
def test_the_worst_of_lines_take_no_time(data: bytes) -> None:
    # Each alternative is tried once at the beginning: work that grows with the line, not its square.

    assert min(timeit.repeat(lambda: read(data[:LINE_MAX]), number=100, repeat=5)) < 0.1
