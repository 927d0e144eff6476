"""The table of outcomes keeps its promises: a code's prefix, its outcome and its flags agree."""

from __future__ import annotations

import pytest

from yaffle.core.health.check_codes import OUTCOMES, judge
from yaffle.model.health import Outcome


@pytest.mark.parametrize("code", OUTCOMES)
def test_row_is_whole(code: str) -> None:
    row = OUTCOMES[code]
    assert row.code == code
    assert row.word
    assert row.word == row.word.strip()
    assert row.sentence.endswith(".")


def test_words_are_distinct() -> None:
    assert len({row.word for row in OUTCOMES.values()}) == len(OUTCOMES)


@pytest.mark.parametrize("code", [code for code in OUTCOMES if code.startswith("X-")])
def test_what_we_could_not_ask_is_unknown(code: str) -> None:
    row = OUTCOMES[code]
    assert row.outcome is Outcome.UNKNOWN
    assert not row.answered
    assert not row.connection_error


@pytest.mark.parametrize("code", OUTCOMES)
def test_pass_and_warn_need_an_answer(code: str) -> None:
    row = OUTCOMES[code]
    if row.outcome in {Outcome.PASS, Outcome.WARN}:
        assert row.answered
    if row.outcome is Outcome.UNKNOWN:
        assert not row.answered


@pytest.mark.parametrize("code", OUTCOMES)
def test_silence_is_no_answer(code: str) -> None:
    """A completed TCP handshake is an answer: from there on a time-out is not our own network."""
    silent = code in {"ST-TIMEOUT", "L4-TIMEOUT", "L4-UNREACH", "L3-DNS", "X-DNS"}
    connected = code.startswith(("L6-", "L7-"))
    assert not (silent and OUTCOMES[code].answered)
    assert not connected or OUTCOMES[code].answered


@pytest.mark.parametrize("code", OUTCOMES)
def test_connection_errors_follow_the_policy(code: str) -> None:
    row = OUTCOMES[code]
    assert judge(code) is row.outcome
    expected = Outcome.UNKNOWN if row.connection_error else row.outcome
    assert judge(code, conn_error_as_unhealthy=False) is expected
    if row.connection_error:
        assert row.outcome is Outcome.FAIL


def test_an_answer_read_to_its_end_is_no_connection_error() -> None:
    """`poll_url_conn_error_as_unhealthy: false` must not hide a 503."""
    for code in ("L7-STATUS", "L7-FAIL", "L7-PATTERN", "L7-REDIRECT"):
        assert judge(code, conn_error_as_unhealthy=False) is Outcome.FAIL


def test_unknown_code_is_a_bug_of_the_caller() -> None:
    with pytest.raises(KeyError):
        judge("L9-NONE")
