"""The catalogue of problems: every way to fail has a row, and the first that matches is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.core.build import SECOND, STATUS, T0, URL, detection, memory, observation

from yaffle.core.health.check_codes import OUTCOMES
from yaffle.core.health.diagnosis import (
    PROBLEMS,
    UNEXPLAINED,
    diagnose,
    explain,
    failing,
    left_as_it_is,
)
from yaffle.core.health.verdict import NodeMemory, observe
from yaffle.model.health import Mark, Outcome
from yaffle.model.ids import ModeKey

HOW = detection(STATUS, URL)
NOTHING = "Nothing that was seen of it says what is wrong."
MARK = Mark(reason="it smells", by="ann", at_us=T0)


def saying(*codes: str, mark: Mark | None = None) -> NodeMemory:
    """A node whose modes said these codes last, the status mode first."""
    seen = memory(mark=mark)
    for mode, code in zip((STATUS, URL), codes, strict=False):
        outcome = OUTCOMES[code].outcome.value
        said = observation(outcome, mode=mode, code=code, detail=f"{code} it was")
        seen = observe(seen, said, HOW, T0)
    return seen


def test_codes_are_unique_and_sentences_are_sentences() -> None:
    rows = (*PROBLEMS, UNEXPLAINED)
    assert len({row.code for row in rows}) == len(rows)
    assert all(row.sentence.endswith(".") and row.sentence[0].isupper() for row in rows)


@pytest.mark.parametrize("code", [c for c, r in OUTCOMES.items() if r.outcome is Outcome.FAIL])
def test_every_way_to_fail_is_explained(code: str) -> None:
    assert diagnose(saying(code)).code != "unexplained"


@pytest.mark.parametrize("row", PROBLEMS, ids=[row.code for row in PROBLEMS])
def test_every_row_is_the_first_to_match_somebody(row: object) -> None:
    everybody = [saying(code) for code in OUTCOMES] + [saying(mark=MARK)]
    assert row in {diagnose(seen) for seen in everybody}


@pytest.mark.parametrize(
    ("seen", "code", "line"),
    [
        pytest.param(
            saying(),
            "unexplained",
            "Nothing that was seen of it says what is wrong.",
            id="nothing-known",
        ),
        pytest.param(
            saying("ST-UP"),
            "unexplained",
            "Nothing that was seen of it says what is wrong.",
            id="all-pass",
        ),
        pytest.param(
            saying("ST-GONE", mark=MARK), "marked", "It was marked unhealthy. it smells", id="mark"
        ),
        pytest.param(
            saying(mark=replace(MARK, reason="")),
            "marked",
            "It was marked unhealthy.",
            id="bare-mark",
        ),
        pytest.param(
            saying("ST-GONE", "L4-TIMEOUT"),
            "gone",
            "There is no such copy any more. ST-GONE it was; L4-TIMEOUT it was",
            id="gone-and-silent",
        ),
        pytest.param(
            saying("ST-UP", "L4-REFUSED"),
            "refusing",
            "It refuses connections. L4-REFUSED it was",
            id="only-what-fails-is-told",
        ),
        pytest.param(saying("ST-FROZEN"), "frozen", None, id="frozen"),
        pytest.param(saying("ST-STUCK"), "stuck", None, id="stuck"),
        pytest.param(saying("ST-DOWN"), "down", None, id="down"),
        pytest.param(saying("ST-UP", "L7-RESET"), "refusing", None, id="reset"),
        pytest.param(saying("ST-UP", "L7-CLOSED"), "refusing", None, id="closed"),
        pytest.param(saying("ST-UP", "L6-TLS"), "tls", None, id="tls"),
        pytest.param(saying("ST-UP", "L6-CERT"), "tls", None, id="certificate"),
        pytest.param(saying("ST-UP", "L6-TIMEOUT"), "tls", None, id="tls-timeout"),
        pytest.param(saying("ST-UP", "L7-TIMEOUT"), "hanging", None, id="hanging"),
        pytest.param(saying("ST-UP", "L4-UNREACH"), "silent", None, id="unreachable"),
        pytest.param(saying("ST-UP", "L3-DNS"), "silent", None, id="no-name"),
        pytest.param(saying("ST-UP", "L4-TIMEOUT"), "silent", None, id="silent"),
        pytest.param(saying("ST-UP", "L7-STATUS"), "failing", None, id="failing"),
    ],
)
def test_diagnosis(seen: NodeMemory, code: str, line: str | None) -> None:
    assert diagnose(seen).code == code
    if line is not None:
        assert explain(seen) == line


@pytest.mark.parametrize(
    ("codes", "left"),
    [
        (("EV-OWN-WILL",), "It is left as it is: EV-OWN-WILL it was"),
        (("ST-LOCKED", "HV-UP"), "It is left as it is: ST-LOCKED it was"),
        (("ST-UP",), ""),
        (("ST-DOWN",), ""),
        (("ST-UNCLEAR", "L7-OK"), ""),
        # Nobody tells: its host says nothing of it.
        (("ST-UNCLEAR",), None),
        (("ST-UNCLEAR", "HV-UP"), None),
        ((), None),
    ],
)
def test_why_it_does_not_run_is_told_or_not(codes: tuple[str, ...], left: str | None) -> None:
    assert left_as_it_is(saying(*codes)) == left


def test_modes_are_told_in_their_order_whoever_spoke_first() -> None:
    seen = memory()
    for mode in (URL, STATUS):
        seen = observe(seen, observation("fail", mode=mode), HOW, T0)
    assert [said.mode for said in failing(seen)] == [STATUS, URL]


def test_the_eleventh_mode_comes_after_the_second() -> None:
    tracks = saying("ST-DOWN").tracks
    track = tracks[STATUS]
    keys = [ModeKey(f"{i}:NODE_STATUS_POLL_URL") for i in (10, 2)]
    assert track.last is not None
    many = {k: replace(track, last=replace(track.last, mode=k)) for k in keys}
    assert [said.mode for said in failing(memory(tracks=many))] == [keys[1], keys[0]]


def test_old_answers_explain_nothing() -> None:
    later = T0 + 3600 * SECOND
    seen = observe(saying("ST-DOWN"), observation("fail", later, mode=URL), HOW, later)
    assert [said.mode for said in failing(seen)] == [URL]


def test_unexplained_matches_everybody() -> None:
    assert UNEXPLAINED.matches(memory())
