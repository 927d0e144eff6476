"""Documents that are made once."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from yaffle.api.http.fixed_documents import Fixed


def asked(**headers: str) -> Request:
    pairs = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    return Request({"type": "http", "method": "GET", "headers": pairs})


@pytest.mark.parametrize(
    ("known", "status"),
    [("{}", 304), ('W/{}, "x"', 304), ("*", 304), ('"x"', 200)],
)
def test_a_document_is_made_once_and_not_sent_to_who_has_it(known: str, status: int) -> None:
    made = []

    def make() -> bytes:
        made.append(1)
        return b"{}"

    async def story() -> None:
        fixed = Fixed(make, media="application/json")
        first = await asyncio.gather(*(fixed.answer(asked()) for _ in range(20)))
        tag = first[0].headers["etag"]
        again = await fixed.answer(asked(if_none_match=known.format(tag)))
        assert (again.status_code, again.headers["etag"]) == (status, tag)
        assert bool(again.body) == (status == 200)

    asyncio.run(story())
    assert made == [1]
