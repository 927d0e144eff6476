"""An answer whose head is known reads as if it had been parsed, or is parsed."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.contract.prober.test_response import Written, answers

from yaffle.prober.head_cache import HEADS_MAX, Heads, Known
from yaffle.prober.response import Response

ONE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
NONE = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def parsed(data: bytes) -> Response:
    response = Response()
    response.feed(data)
    return response


def knows(*lessons: bytes) -> Heads:
    heads = Heads()
    for data in lessons:
        heads.learn(data, parsed(data))
    return heads


def reading(answer: Response | Known) -> tuple[object, ...]:
    return (
        answer.ending,
        answer.status,
        answer.content_type,
        answer.location,
        answer.body,
        answer.keeps_alive,
    )


@given(answers(), answers(), st.integers(0, 400), st.binary(max_size=3))
def test_what_is_recalled_is_what_would_be_parsed(
    lesson: Written, asked: Written, place: int, junk: bytes
) -> None:
    heads = knows(lesson.data)
    at = place % (len(lesson.data) + 1)
    variants = [
        lesson.data,
        asked.data,
        lesson.data[:at],
        lesson.data[:at] + junk + lesson.data[at + len(junk) :],
        lesson.data + junk,
        lesson.data + asked.data,
    ]
    for data in variants:
        known = heads.recall(data)
        if known is not None:
            assert reading(known) == reading(parsed(data))


@given(answers(), st.data())
def test_another_body_of_the_same_length_is_read(written: Written, data: st.DataObject) -> None:
    assume(b"Content-Length" in written.data and b"103" not in written.data)
    heads = knows(written.data)
    body = data.draw(st.binary(min_size=len(written.body), max_size=len(written.body)))
    other = written.data[: len(written.data) - len(body)] + body
    known = heads.recall(other)
    assert known is not None
    assert known.body == body
    assert reading(known) == reading(parsed(other))


@pytest.mark.parametrize(
    ("lesson", "data"),
    [
        pytest.param(ONE, ONE[:-1], id="body-short"),
        pytest.param(ONE, ONE + b"x", id="body-long"),
        pytest.param(NONE, NONE[:-4], id="cut-before-the-blank-line"),
        pytest.param(NONE, NONE[:-2], id="cut-within-the-blank-line"),
        pytest.param(NONE[:-4], NONE, id="a-piece-teaches-nothing"),
        pytest.param(ONE + ONE, ONE + ONE, id="two-answers"),
        pytest.param(b"HTTP/1.1 103 E\r\n\r\n" + NONE, b"HTTP/1.1 103 E\r\n\r\n", id="interim"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n\r\n",
            id="chunked",
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nok", b"HTTP/1.1 200 OK\r\n\r\nko", id="until-closed"),
        pytest.param(
            b"HTTP/1.1 200 OK\nContent-Length: 9\n\nok\r\n\r\nabc",
            b"HTTP/1.1 200 OK\nContent-Length: 9\n\nok\r\n\r\nabc",
            id="bare-line-feeds",
        ),
    ],
)
def test_these_are_parsed(lesson: bytes, data: bytes) -> None:
    assert knows(lesson).recall(data) is None


def test_memory_is_bounded() -> None:
    heads = Heads()
    for number in range(3 * HEADS_MAX):
        data = ONE.replace(b"OK", b"OK %d" % number)
        heads.learn(data, parsed(data))
        assert heads.recall(data) is not None
        assert len(heads._known) <= HEADS_MAX
