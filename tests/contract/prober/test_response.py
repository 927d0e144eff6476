"""However the bytes of an answer are cut, the reading is the same, and it is what was written."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yaffle.prober.response import BODY_BYTES_MAX, COMPLETE, HEADER_BYTES_MAX, Response

Reading = tuple[str | None, int, str, str, bytes, bool]


def read(data: bytes, cuts: list[int], *, then_closed: bool = True) -> Reading:
    """Feed `data` cut at `cuts`."""
    response = Response()
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    for start, end in pairwise(edges):
        if start < end and response.feed(data[start:end]):
            break
    if then_closed:
        response.connection_ended()
    # Until the headers are whole (status 0) nobody looks at those that were seen.
    return (
        response.ending,
        response.status,
        response.content_type if response.status else "",
        response.location if response.status else "",
        response.body,
        response.keeps_alive,
    )


@dataclass
class Written:
    """An answer by construction: the oracle needs no parser."""

    data: bytes
    status: int
    body: bytes
    ends_itself: bool


@st.composite
def answers(draw: st.DrawFn) -> Written:
    status = draw(st.sampled_from([200, 201, 302, 404, 500, 503]))
    body = draw(st.binary(max_size=300))
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    version = draw(st.sampled_from(["1.0", "1.1"])) if framing != "chunked" else "1.1"
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * draw(st.integers(0, 2))
    head = f"HTTP/{version} {status} Some Words\r\nContent-Type: text/x\r\nLocation: /there\r\n"
    match framing:
        case "length":
            head += f"Content-Length: {len(body)}\r\n\r\n"
            payload = body
        case "close":
            head += "\r\n"
            payload = body
        case _:
            head += "Transfer-Encoding: chunked\r\n\r\n"
            size = draw(st.integers(1, 50))
            parts = [body[i : i + size] for i in range(0, len(body), size)]
            payload = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
            payload += b"0\r\n" + draw(st.sampled_from([b"", b"X-Sum: 1\r\n"])) + b"\r\n"
    return Written(interim + head.encode() + payload, status, body, framing != "close")


cuts = st.lists(st.integers(0, 10_000), max_size=12)


@given(answers(), cuts)
def test_reads_what_was_written(written: Written, where: list[int]) -> None:
    ending, status, content_type, location, body, _ = read(
        written.data, where, then_closed=not written.ends_itself
    )
    assert (ending, status, body) == (COMPLETE, written.status, written.body)
    assert (content_type, location) == ("text/x", "/there")


@given(answers())
def test_byte_by_byte_equals_at_once(written: Written) -> None:
    every = list(range(len(written.data)))
    assert read(written.data, every) == read(written.data, [])


@given(answers(), cuts, st.integers(0, 400), st.binary(min_size=1, max_size=4))
def test_damaged_answers_read_the_same_however_cut(
    written: Written, where: list[int], place: int, junk: bytes
) -> None:
    at = place % (len(written.data) + 1)
    damaged = written.data[:at] + junk + written.data[at + 1 :]
    whole, cut = read(damaged, []), read(damaged, where)
    assert whole[:5] == cut[:5]


@given(answers(), cuts, st.integers(1, 400))
def test_cut_short_is_never_complete(written: Written, where: list[int], missing: int) -> None:
    if written.ends_itself and missing <= len(written.data):
        ending = read(written.data[:-missing], where)[0]
        assert ending in {"L7-SHORT", "L7-CLOSED"}


@given(st.binary(max_size=200), cuts)
def test_any_bytes_end_somehow(data: bytes, where: list[int]) -> None:
    assert read(data, where)[0] in {"L7-INVALID", "L7-SHORT", "L7-CLOSED", COMPLETE}


@pytest.mark.parametrize("piece", [1, 7, 4096, 100_000_000])
@pytest.mark.parametrize(("over", "ending"), [(0, COMPLETE), (1, "L7-TOO-LARGE")])
def test_header_limit_is_exact(piece: int, over: int, ending: str) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: "
    tail = b"\r\n\r\n"
    data = head + b"x" * (HEADER_BYTES_MAX - len(head) - len(tail) + over) + tail + b"ok"
    assert read(data, list(range(0, len(data), piece)))[0] == ending


@pytest.mark.parametrize("piece", [997, 100_000_000])
@pytest.mark.parametrize(("over", "ending"), [(0, COMPLETE), (1, "L7-TOO-LARGE")])
def test_body_limit_is_exact(piece: int, over: int, ending: str) -> None:
    size = BODY_BYTES_MAX + over
    data = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    assert read(data, list(range(0, len(data), piece)))[0] == ending


def test_surplus_bytes_spoil_the_connection_only() -> None:
    one = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    assert read(one, [])[5] is True
    assert read(one + one, [])[4:] == (b"ok", False)
    assert read(one + b"junk", [])[4:] == (b"ok", False)
