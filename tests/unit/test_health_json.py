"""application/health+json in both shapes, with every alias, and whatever else a node may send."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yaffle.core.health.health_json import BODY_BYTES_MAX, is_health_json, read
from yaffle.model.health import Outcome

P, W, F, U = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("pass", P), ("ok", P), ("UP", P), ("Pass", P), (" pass ", P),
        ("warn", W), ("WARN", W),
        ("fail", F), ("error", F), ("Down", F),
        ("OUT_OF_SERVICE", U), ("", U), (None, U), (1, U), (["pass"], U),
    ],
)  # fmt: skip
def test_words(word: object, status: Outcome) -> None:
    assert read(json.dumps({"status": word}).encode()).status is status


@pytest.mark.parametrize(
    "checks",
    [
        pytest.param(
            {
                "cache": {"status": "warn", "output": "slow"},
                "db": {"status": "fail", "output": "no disk\nsecond line", "time": "now"},
                "api": {"status": "pass"},
            },
            id="nova",
        ),
        pytest.param(
            {
                "cache": [{"status": "warn", "output": "slow"}],
                "db": [{"status": "pass"}, {"status": "ERROR", "output": "no disk"}],
            },
            id="ietf",
        ),
    ],
)
def test_worst_check_of_either_shape(checks: object) -> None:
    document = read(json.dumps({"status": "fail", "checks": checks}).encode())
    assert (document.status, document.worst, document.detail) == (F, "db", "no disk")


def test_component_is_named() -> None:
    body = {"status": "warn", "checks": {"db": [{"status": "warn", "componentId": "replica-2"}]}}
    assert read(json.dumps(body).encode()).worst == "db (replica-2)"


def test_top_level_output_where_no_check_tells() -> None:
    body = {"status": "fail", "output": "out of memory", "checks": {"db": "odd", "x": [1, None]}}
    document = read(json.dumps(body).encode())
    assert (document.worst, document.detail) == ("", "out of memory")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b'{"a":' * 50_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "no status"),
        (b'{"status": "odd"}', "unknown status 'odd'"),
        (b" " * (BODY_BYTES_MAX + 1), "larger than 512 KiB"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_not_understood_is_unknown(body: bytes, words: str) -> None:
    document = read(body)
    assert document.status is U
    assert words in document.detail


def test_many_checks_are_bounded() -> None:
    checks = {"many": [{"status": "pass"}] * 5_000, "late": {"status": "fail"}}
    assert read(json.dumps({"status": "pass", "checks": checks}).encode()).worst == ""


def test_text_is_one_bounded_printable_line() -> None:
    body = {
        "status": "fail",
        "checks": {"k\x00" * 999: {"status": "fail", "output": "a\x1b[1m" * 999}},
    }
    document = read(json.dumps(body).encode())
    for text in (document.worst, document.detail):
        assert 0 < len(text) <= 120
        assert text.isprintable()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=9,
)


@given(json_values, json_values, json_values)
def test_never_raises_and_only_status_decides(
    status: object, checks: object, output: object
) -> None:
    body = {"status": status, "checks": checks, "output": output}
    document = read(json.dumps(body).encode())
    assert document.status is read(json.dumps({"status": status}).encode()).status
    assert document.detail.isprintable()


@given(st.binary(max_size=99))
def test_any_bytes(body: bytes) -> None:
    assert read(body).status in set(Outcome)


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/health+json", True),
        ("Application/Health+JSON; profile=x", True),
        ("application/json", False),
        ("", False),
    ],
)
def test_media_type(content_type: str, expected: bool) -> None:
    assert is_health_json(content_type) is expected
