"""What is printed: columns, values, time lines; and nothing that commands a terminal."""

from __future__ import annotations

import json

import pytest

from yaffle.cli.commands.incidents import story
from yaffle.cli.demo.scenario import Failure, Mark, lines, timeline
from yaffle.cli.output import Output, clean, shown


def test_columns_are_aligned_and_empty_ones_said(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=False)
    found = [{"a": "x", "b": None}, {"a": "longer", "b": True}]
    output.table({}, found, [("A", "a"), ("B", lambda row: row["b"])], empty="none")
    assert capsys.readouterr().out == "A       B\nx       -\nlonger  yes\n"
    output.table({}, [], [("A", "a")], empty="none")
    assert capsys.readouterr().out == "none\n"


def test_json_is_the_whole_answer(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).table({"rows": [1]}, [], [], empty="none")
    assert json.loads(capsys.readouterr().out) == {"rows": [1]}


def test_what_nodes_say_does_not_command_the_terminal() -> None:
    assert "\x1b" not in clean("a\x1b[2Jb\x07")
    assert shown("two\nlines\x1b]0;title\x07") == "two lines�]0;title�"
    assert shown({"k": [1.50, None, False]}) == "k 1.5, -, no"


INCIDENT = {
    "opened_us": 10_000_000,
    "reason": "recovered: it runs",
    "timeline_ms": {"failed": 0.0, "detected": 1000.0, "decided": 1010.0, "recovered": 2500.0},
    "steps": [
        {"stage": "fence", "operation": "RECREATE", "result": "proved", "detail": "gone",
         "at_us": 10_100_000, "at_ms": 1100.0, "took_ms": 50.0},
        {"stage": "verify", "operation": "RECREATE", "phase": "submitted", "detail": "",
         "at_us": 11_400_000, "at_ms": 2400.0, "took_ms": None},
    ],
    "proofs": [{"method": "sigkill", "evidence": "none left", "waived": False}],
}  # fmt: skip


def test_the_demos_story_counts_from_the_kill_and_keeps_the_order() -> None:
    failure = Failure(node={"name": "web-2"}, pid=42, at_us=8_500_000)
    marks = timeline(failure, INCIDENT)
    assert [(m.name, (m.at_us - failure.at_us) // 1000) for m in marks] == [
        ("failed", 0),
        ("noticed", 500),
        ("detected", 1500),
        ("decided", 1510),
        ("fenced", 1600),
        ("step", 2900),
        ("recovered", 3000),
    ]
    assert lines(failure, [Mark(at_us=10_000_000, name="x", text="y")]) == [
        "    +1.5 s  x          y"
    ]


def test_the_demo_says_why_nothing_was_fenced() -> None:
    failure = Failure(node={"name": "web-2"}, pid=42, at_us=8_500_000)
    marks = timeline(failure, {**INCIDENT, "steps": []})
    assert [m.name for m in marks][-2:] == ["fenced", "recovered"]
    assert "not needed" in marks[-2].text


def test_an_incidents_story_has_steps_in_time_and_proofs() -> None:
    told = story(INCIDENT)
    assert [line.split()[2] for line in told[:5]] == ["failed"] * 0 + [
        "failed", "detected", "decided", "fence", "verify"
    ]  # fmt: skip
    assert "proved in 50 ms: gone" in told[3]
    assert told[-1].strip() == "proof:  sigkill: none left"
