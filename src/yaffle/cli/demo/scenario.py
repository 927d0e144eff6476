"""Demo scenario: one failure from the kill to the proof that its node is back, with all times."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Final

from yaffle.cli import durations
from yaffle.cli.client.deadlines import CLOCK, Deadline, pause
from yaffle.cli.client.native import Api, Row, inner, items, rows
from yaffle.cli.demo.fixture import Answer, DemoFailed, World, inspect_node, node_url
from yaffle.cli.output import clean, shown

LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure that the demo caused."""

    node: Row
    pid: int
    at_us: int

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.node.get("name"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment of the story."""

    at_us: int
    name: str
    text: str


def fail_one(world: World, api: Api) -> Failure:
    """Kill the process of the second node with SIGKILL; raise DemoFailed if it cannot be found."""
    node = world.nodes(api)[1]
    answer = inspect_node(node)
    if answer is None or answer.pid not in world.members():
        raise DemoFailed(f"{node.get('name')} does not answer at {node_url(node)}")
    at_us = CLOCK.now_us()
    os.kill(answer.pid, signal.SIGKILL)
    return Failure(node=node, pid=answer.pid, at_us=at_us)


def incident_of(api: Api, failure: Failure) -> Row | None:
    """Return the failure's incident with its steps; None while nobody has noticed."""
    for row in rows(api.get("incidents", node=failure.node.get("id"), limit=5), "incidents"):
        opened = row.get("opened_us")
        if isinstance(opened, int) and opened >= failure.at_us:
            return inner(api.get("incidents", str(row.get("id"))), "incident")
    return None


def ended(incident: Row | None) -> bool:
    """Whether the incident is over, well or not."""
    return incident is not None and not incident.get("open")


def await_end(api: Api, failure: Failure, deadline: Deadline) -> Row:
    """Return the failure's incident once it has ended; raise DemoFailed when that takes too long."""
    while True:
        incident = incident_of(api, failure)
        if incident is not None and ended(incident):
            return incident
        if deadline.over:
            state = "was not noticed" if incident is None else f"is {incident.get('state')}"
            raise DemoFailed(
                f"the failure of {failure.name} {state} after {deadline.seconds:.0f} s"
            )
        pause(LOOK_S)


def verify(world: World, api: Api, failure: Failure, deadline: Deadline) -> tuple[Mark, Answer]:
    """Ask the node itself, not Yaffle: a new process has to answer, and the old one be gone."""
    answer: Answer | None = None
    while not deadline.over:
        # Looked up anew: a node that was built again may have another port.
        node = inner(api.get("nodes", str(failure.node.get("id"))), "node")
        answer = inspect_node(node)
        members = world.members()
        if answer is not None and answer.pid in members and failure.pid not in members:
            text = f"{node_url(node)} answers, process {answer.pid}"
            return Mark(at_us=CLOCK.now_us(), name="verified", text=text), answer
        pause(LOOK_S)
    said = "nothing answers" if answer is None else f"process {answer.pid} answers"
    raise DemoFailed(f"{failure.name} is not back: at {node_url(failure.node)} {said}")


def timeline(failure: Failure, incident: Row) -> list[Mark]:
    """Return every moment of the incident in order of time, the kill first."""
    marks = [Mark(at_us=failure.at_us, name="failed", text=f"process {failure.pid} was killed")]
    base = _base_us(incident)
    words = inner(incident, "timeline_ms")
    texts = {
        "failed": ("noticed", "the first check that failed"),
        "detected": ("detected", "unhealthy; incident opened"),
        "decided": ("decided", "recover"),
        "started": ("started", "the first step"),
        "recovered": ("recovered", shown(incident.get("reason"))),
    }
    for word, (name, text) in texts.items():
        ms = words.get(word)
        if isinstance(ms, (int, float)):
            marks.append(Mark(at_us=base + int(ms * 1000), name=name, text=text))
    steps = list(items(incident, "steps"))
    marks += [mark for step in steps if (mark := _step(step)) is not None]
    # By time alone: moments that coincide stay in the order of the story.
    marks.sort(key=lambda mark: (mark.at_us, mark.name == "recovered"))
    if not any(step.get("stage") == "fence" for step in steps):
        marks.insert(len(marks) - 1, _unfenced(marks[-1].at_us))
    return marks


def _base_us(incident: Row) -> int:
    """Return the moment from which `timeline_ms` counts."""
    detected = inner(incident, "timeline_ms").get("detected")
    opened = incident.get("opened_us")
    before = detected if isinstance(detected, (int, float)) else 0
    return int(str(opened)) - int(before * 1000)


def _step(step: Row) -> Mark | None:
    at_us = step.get("at_us")
    if not isinstance(at_us, int):
        return None
    took = step.get("took_ms")
    time = f", took {durations.shown(took / 1000)}" if isinstance(took, (int, float)) else ""
    name = {"fence": "fenced"}.get(str(step.get("stage")), "step")
    what = f"{step.get('stage')} {step.get('operation') or ''}".rstrip()
    result = step.get("result") or step.get("phase")
    detail = shown(step.get("detail") or "")
    return Mark(at_us=at_us, name=name, text=f"{what}: {result}{time}{detail and f': {detail}'}")


def _unfenced(at_us: int) -> Mark:
    return Mark(
        at_us=at_us, name="fenced", text="not needed: it was healed in place, no second copy"
    )


def lines(failure: Failure, marks: list[Mark]) -> list[str]:
    """Return the story for people, each moment with the time since the kill."""
    told = []
    for mark in marks:
        since = f"+{durations.shown((mark.at_us - failure.at_us) / 1e6)}"
        told.append(clean(f"{since:>10}  {mark.name:<10} {mark.text}"))
    return told
