"""What an HTTP answer of a cloud means; above all, what it does not prove."""

from __future__ import annotations

import json

import pytest

from yaffle.errors import BadRequest, Conflict, Forbidden, NotFound, OverQuota
from yaffle.integrations.openstack.faults import CloudUnavailable, fault_of


def body(word: str, message: str) -> bytes:
    return json.dumps({word: {"code": 400, "message": message}}).encode()


GONE = body("itemNotFound", "Instance x could not be found.")
NO_POOL = json.dumps({"code": 404, "title": "Bad Request", "description": "Pool x not found."})
NO_PAGE = json.dumps({"code": 404, "title": "Not Found", "description": "no such place"})
NO_IMAGE = b"<html><h1>404 Not Found</h1>\n  No image found with ID 01c3e056<br /></html>"
PAGE = b"<html><body><h1>404 Not Found</h1></body></html>"


@pytest.mark.parametrize(
    ("status", "answer", "kind"),
    [
        pytest.param(404, GONE, NotFound, id="nova's own not found"),
        pytest.param(404, NO_POOL.encode(), NotFound, id="octavia's own not found"),
        pytest.param(404, NO_PAGE.encode(), CloudUnavailable, id="another of that shape"),
        pytest.param(404, NO_IMAGE, NotFound, id="glance's own not found"),
        pytest.param(404, PAGE, CloudUnavailable, id="a proxy's not found"),
        pytest.param(404, b"", CloudUnavailable, id="an empty not found"),
        pytest.param(404, b'{"message": "no route"}', CloudUnavailable, id="a gateway's"),
        pytest.param(409, body("conflictingRequest", "task_state"), Conflict, id="conflict"),
        pytest.param(403, body("forbidden", "Quota exceeded for cores"), OverQuota, id="quota"),
        pytest.param(413, body("overLimit", "Quota exceeded"), OverQuota, id="old quota"),
        pytest.param(403, body("forbidden", "Policy doesn't allow"), Forbidden, id="forbidden"),
        pytest.param(400, body("badRequest", "Invalid imageRef"), BadRequest, id="bad request"),
        pytest.param(406, b"", BadRequest, id="a version that it does not know"),
        pytest.param(401, b"", CloudUnavailable, id="unauthorized, again"),
        pytest.param(429, b"", CloudUnavailable, id="too many requests"),
        pytest.param(500, body("computeFault", "Unexpected"), CloudUnavailable, id="500"),
        pytest.param(503, PAGE, CloudUnavailable, id="503"),
        pytest.param(503, b'{"e": "\xff"}', CloudUnavailable, id="bytes that are no text"),
        pytest.param(503, b"[" * 100_000, CloudUnavailable, id="too deep to be read"),
        pytest.param(302, b"", CloudUnavailable, id="sent elsewhere"),
    ],
)
def test_what_an_answer_means(status: int, answer: bytes, kind: type[Exception]) -> None:
    error = fault_of(status, answer, "GET /servers/x", acts=False)
    assert type(error) is kind
    assert "GET /servers/x" in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("status", "acts", "sent"),
    [(500, True, True), (504, True, True), (500, False, False), (429, True, False), (401, True, False)],
)  # fmt: skip
def test_whether_it_may_have_acted(status: int, acts: bool, sent: bool) -> None:
    error = fault_of(status, b"", "POST /servers", acts=acts)
    assert isinstance(error, CloudUnavailable)
    assert error.sent is sent


def test_the_clouds_own_words_are_told() -> None:
    assert "could not be found" in str(fault_of(404, GONE, "GET", acts=False))
    keystones = b'{"error": {"code": 403, "message": "not you", "title": "Forbidden"}}'
    assert "not you" in str(fault_of(403, keystones, "GET", acts=False))
