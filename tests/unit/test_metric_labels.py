"""Labels of metrics are words: whoever writes a rule does not copy a sentence that may be mended."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter
from tests.metric_labels import WORD, is_word, sentences

import yaffle
from yaffle.drivers.detectors.lifecycle.messages import Ignored
from yaffle.drivers.detectors.load_balancer.event_checks import COUNTS
from yaffle.engine.runtime.listener_metrics import NAME
from yaffle.engine.runtime.metrics import BLINDNESS, Metrics
from yaffle.model.health import Health, Outcome
from yaffle.model.incident import HoldReason, IncidentState

SOURCE = Path(yaffle.__file__).parent


def texts_in(source: str) -> Iterator[str]:
    """Yield each text that a piece of source counts by: `.labels("x")`, `counts["x"] += 1`, `cause =`."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"labels", "_tell"}
        ):
            places: list[ast.AST] = list(node.args)
        elif (
            isinstance(node, ast.AugAssign)
            and isinstance(node.target, ast.Subscript)
            and "counts" in ast.unparse(node.target.value)
        ):
            places = [node.target.slice]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "cause":
            places = [node.value]
        else:
            continue
        for place in places:
            yield from _texts(place)


def _texts(place: ast.AST) -> Iterator[str]:
    match place:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=one, orelse=other):
            yield from (*_texts(one), *_texts(other))
        case ast.JoinedStr(values=parts):
            for part in parts:
                yield from _texts(part)


def counted() -> set[str]:
    files = [*SOURCE.glob("engine/**/*.py"), *SOURCE.glob("drivers/detectors/**/*.py")]
    return {text for file in files for text in texts_in(file.read_text())}


def test_every_text_that_is_counted_by_is_a_word() -> None:
    found = counted()
    assert found >= {*BLINDNESS, "heard", "of_nobody", "too_long", "person"}
    assert {text for text in found if not WORD.fullmatch(text)} == set()


@pytest.mark.parametrize(
    ("label", "values"),
    [
        pytest.param("cause", BLINDNESS, id="blindness"),
        pytest.param("result", COUNTS, id="balancers' events"),
        pytest.param("result", list(Ignored), id="notifications"),
        pytest.param("health", list(Health), id="health"),
        pytest.param("outcome", list(Outcome), id="outcome"),
        pytest.param("reason", list(HoldReason), id="holds"),
        pytest.param("state", list(IncidentState), id="incidents"),
    ],
)
def test_the_closed_lists_hold_words(label: str, values: list[str]) -> None:
    assert [value for value in values if not is_word(label, value)] == []


def test_what_a_detector_heard_is_walked_as_well() -> None:
    class Ears:
        def __init__(self) -> None:
            self.counts = {"of nobody": 1, "woke": 2}

        def listeners(self) -> list[object]:
            return []

    metrics = Metrics()
    assert sentences(metrics.registry) == []
    metrics.heard.follow({"LB_STATUS_POLLING": Ears()})
    assert sentences(metrics.registry) == [f"{NAME}_total{{result='of nobody'}}"]


def test_a_sentence_would_be_seen() -> None:
    registry = CollectorRegistry()
    counter = Counter("x", "X.", ["cause", "mode"], registry=registry)
    counter.labels("no answer", "NODE_STATUS_POLLING")
    counter.labels("word", "a mode")
    wrong = {"{cause='no answer'}", "{mode='a mode'}"}
    assert {seen[seen.index("{") :] for seen in sentences(registry)} == wrong
    assert set(texts_in('a.labels("b c")\ncounts["d e" if f else "g"] += 1')) == {
        "b c",
        "d e",
        "g",
    }
