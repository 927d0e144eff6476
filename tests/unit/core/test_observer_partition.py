"""Is it me? Silence of all is needed, and one answer of any kind disproves it."""

from __future__ import annotations

import pytest
from tests.unit.core.build import SECOND, STATUS, T0, URL, detection, feed, memory, observation

from yaffle.core.health.verdict import NodeMemory, conclude, observe, resettle
from yaffle.core.planning.observer_partition import (
    Blindness,
    Sights,
    assess,
    bearings,
    by_road,
    hear,
    is_blind,
    rests_on,
    silence,
)
from yaffle.model.ids import ModeKey

REFUSED = observation("fail", code="L4-REFUSED", answered=True)


def silent() -> NodeMemory:
    return feed(memory(), ["fail"], detection())


def refusing() -> NodeMemory:
    return observe(memory(), REFUSED, detection(), T0)


@pytest.mark.parametrize(
    ("memories", "references", "blind"),
    [
        pytest.param([], (), None, id="nobody"),
        pytest.param([silent()], (), None, id="one-target-proves-nothing"),
        pytest.param([silent()], (False,), (1, 0, 1, 0), id="one-target-and-a-reference"),
        pytest.param([silent()], (True,), None, id="one-target-and-a-reference-that-answers"),
        pytest.param([], (False,), None, id="references-alone-are-nobodys-node"),
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


def at(word: str, at_us: int, mode: ModeKey = STATUS) -> NodeMemory:
    one = observation(word, at_us, mode=mode)
    return observe(memory(), one, detection(STATUS, URL), at_us)


def test_of_all_that_was_heard_only_answers_since_the_silence_began_count() -> None:
    dead = at("fail", T0)
    fell = silence([dead])
    assert fell is not None
    assert fell.since_us == T0
    before, after = at("pass", T0 - SECOND), at("pass", T0 + SECOND)
    assert is_blind(hear([dead, before], fell.roads).since(T0)), "the network may be gone since"
    assert not is_blind(hear([dead, before, after], fell.roads).since(T0))
    assert is_blind(hear([dead, dead], fell.roads).since(T0))
    assert not is_blind(hear([dead], fell.roads).since(T0)), "one target proves nothing"


def test_an_answer_by_another_road_proves_nothing() -> None:
    dead, backend = at("fail", T0, mode=URL), at("pass", T0 + SECOND, mode=STATUS)
    fell = silence([dead])
    assert fell is not None
    heard = hear([dead, dead, backend], fell.roads)
    assert (heard.asked, heard.silent, heard.answers_us) == (2, 2, ())
    assert silence([memory()]) is None


# --- one road among several ----------------------------------------------------------------------

BACKEND, WEB = "NODE_STATUS_POLLING", "NODE_STATUS_POLL_URL"
SILENCE, REFUSAL, PASS = ("fail", False), ("fail", True), ("pass", True)


def by_both(status: tuple[str, bool], url: tuple[str, bool]) -> NodeMemory:
    """A node that each of two modes, either of which suffices, has said the same of three times."""
    how = detection(STATUS, URL)
    node = memory()
    for at_s in range(3):
        for mode, (word, answered) in ((STATUS, status), (URL, url)):
            now_us = T0 + at_s * SECOND
            node = observe(
                node, observation(word, now_us, mode=mode, answered=answered), how, now_us
            )
    return node


@pytest.mark.parametrize(
    ("status", "url", "roads"),
    [
        pytest.param(PASS, PASS, set(), id="well"),
        pytest.param(PASS, SILENCE, {WEB}, id="only-the-url-and-it-is-silent"),
        pytest.param(PASS, REFUSAL, set(), id="only-the-url-and-it-refuses"),
        pytest.param(REFUSAL, SILENCE, set(), id="the-backend-says-so-too"),
        pytest.param(SILENCE, SILENCE, {BACKEND, WEB}, id="both-are-silent"),
    ],
)
def test_what_a_failure_rests_on(
    status: tuple[str, bool], url: tuple[str, bool], roads: set[str]
) -> None:
    assert rests_on(by_both(status, url)) == roads


@pytest.mark.parametrize(
    ("nodes", "blind"),
    [
        pytest.param([(PASS, SILENCE)] * 2, (2, 0, WEB), id="no-url-answers"),
        pytest.param([(PASS, SILENCE), (PASS, PASS)], None, id="one-url-answers"),
        pytest.param([(PASS, SILENCE), (PASS, REFUSAL)], None, id="one-url-refuses"),
        pytest.param([(REFUSAL, SILENCE)] * 2, None, id="switched-off-by-the-backends-word"),
        pytest.param([(SILENCE, SILENCE)] * 2, (2, 0, ""), id="nobody-answers-at-all"),
        pytest.param([(SILENCE, SILENCE), (PASS, SILENCE)], None, id="the-backend-was-reached"),
        pytest.param([(PASS, SILENCE)], None, id="one-target-proves-nothing"),
    ],
)
def test_sight_of_the_first_node(
    nodes: list[tuple[tuple[str, bool], tuple[str, bool]]], blind: tuple[int, int, str] | None
) -> None:
    known = [by_both(*said) for said in nodes]
    sights = Sights(whole=bearings(known, ()), roads=by_road(known, (BACKEND, WEB)))
    found = sights.of(known[0])
    assert ((found.asked, found.answered, found.road) if is_blind(found) else None) == blind
    assert sights.blind or blind is None


def test_a_road_that_was_not_counted_is_not_held_to_be_silent() -> None:
    known = [by_both(PASS, SILENCE)] * 2
    assert not is_blind(Sights(whole=bearings(known, ())).of(known[0]))
