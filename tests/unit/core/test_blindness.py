"""Is it me? Silence of all is needed, and one answer of any kind disproves it."""

from __future__ import annotations

import pytest
from tests.unit.core.build import SECOND, STATUS, T0, URL, detection, feed, memory, observation

from yaffle.core.blindness import Blindness, assess
from yaffle.core.verdict import NodeMemory, conclude, observe, resettle

REFUSED = observation("fail", code="L4-REFUSED", answered=True)


def silent() -> NodeMemory:
    return feed(memory(), ["fail"], detection())


def refusing() -> NodeMemory:
    return observe(memory(), REFUSED, detection(), T0)


@pytest.mark.parametrize(
    ("memories", "references", "blind"),
    [
        pytest.param([], (), None, id="nobody"),
        pytest.param([silent()], (False,), None, id="one-target-proves-nothing"),
        pytest.param([silent(), memory()], (), None, id="one-target-and-one-never-asked"),
        pytest.param([silent()] * 2, (), (2, 0, 0, 0), id="two-silent"),
        pytest.param([silent()] * 3, (False, False), (3, 0, 2, 0), id="references-fail-too"),
        pytest.param([silent()] * 3, (False, True), None, id="a-reference-answers"),
        pytest.param([silent(), refusing()], (False,), None, id="a-refusal-is-an-answer"),
        pytest.param(
            [silent(), feed(memory(), ["pass"], detection())], (), None, id="a-pass-is-an-answer"
        ),
        pytest.param(
            [silent(), feed(memory(), ["unknown"], detection())], (), (2, 0, 0, 0), id="unknowns"
        ),
        pytest.param([resettle(silent())] * 2, (), None, id="nothing-asked-since-blindness"),
    ],
)
def test_assess(
    memories: list[NodeMemory],
    references: tuple[bool, ...],
    blind: tuple[int, int, int, int] | None,
) -> None:
    found = assess(memories, references)
    if blind is None:
        assert found is None
    else:
        asked, answered, references_asked, references_answered = blind
        assert found == Blindness(
            asked=asked,
            answered=answered,
            references_asked=references_asked,
            references_answered=references_answered,
        )


def test_one_mode_that_is_answered_suffices() -> None:
    """The backend says down, the URL is silent: the backend was reached."""
    how = detection(STATUS, URL)
    down = observation("fail", code="ST-DOWN", answered=True)
    half = observe(memory(), down, how, T0)
    half = observe(half, observation("fail", mode=URL), how, T0)
    assert assess([silent(), half], ()) is None


def test_an_answer_of_long_ago_proves_nothing_now() -> None:
    old = conclude(refusing(), detection(), T0 + 3600 * SECOND)
    assert assess([silent(), silent(), old], ()) is not None


def test_an_answer_of_a_mode_that_is_gone_proves_nothing() -> None:
    gone = conclude(refusing(), detection(modes=()), T0)
    assert assess([silent(), silent(), gone], ()) is not None
