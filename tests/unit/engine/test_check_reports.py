"""When a look came to nothing because something could not be asked, and when nothing was heard."""

from __future__ import annotations

import pytest

from yaffle.core.health.check_codes import OUTCOMES, judge
from yaffle.core.health.verdict import Vote
from yaffle.engine.detection.checks import CheckReport
from yaffle.model.health import Observation
from yaffle.model.ids import ModeKey, NodeId


def seen(code: str) -> Observation:
    known = code in OUTCOMES
    return Observation(
        node_id=NodeId("n"),
        mode=ModeKey("0:URL"),
        outcome=judge(code if known else "X-BUG", conn_error_as_unhealthy=False),
        code=code,
        detail=code,
        at_us=1,
    )


@pytest.mark.parametrize(
    ("vote", "codes", "unasked"),
    [
        pytest.param(Vote.UNKNOWN, ["X-DEADLINE"], True, id="late"),
        pytest.param(Vote.UNKNOWN, ["ST-UNCLEAR", "L7-OK"], True, id="the-backend-cannot-tell"),
        pytest.param(Vote.UNKNOWN, ["L4-TIMEOUT"], False, id="silence-that-the-policy-forgives"),
        pytest.param(Vote.UNKNOWN, ["L4-TIMEOUT", "ST-ERROR"], True, id="both"),
        pytest.param(Vote.UNKNOWN, ["a stranger's"], True, id="no-code-of-ours"),
        pytest.param(Vote.FAIL, ["X-DEADLINE", "L7-FAIL"], False, id="another-mode-decides"),
        pytest.param(Vote.PASS, ["L7-OK"], False, id="well"),
    ],
)
def test_what_could_not_be_asked(vote: Vote, codes: list[str], unasked: bool) -> None:
    assert CheckReport(vote=vote, observations=tuple(map(seen, codes))).unasked is unasked
