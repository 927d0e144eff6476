"""The answer to "why": data for programs, sentences for a person at three in the morning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Self

from yaffle.core.health.check_codes import OUTCOMES
from yaffle.core.health.verdict import Belief
from yaffle.core.planning.host_attribution import Fault
from yaffle.core.recovery.ladder import Stage
from yaffle.engine.explain.holds import MISSING
from yaffle.engine.queries.decisions import sentence
from yaffle.engine.queries.presentation import Shown, iso
from yaffle.model.counts import count
from yaffle.model.health import Health, Outcome

if TYPE_CHECKING:
    from yaffle.core.health.verdict import Track

_SETTLED: Final = frozenset({Belief.UP.value, Belief.DOWN.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWord:
    """Belief of one detection mode about a node, and what it saw last."""

    belief: str = Belief.PENDING.value
    code: str = ""
    detail: str = ""
    at_us: int | None = None

    @classmethod
    def of(cls, track: Track) -> Self:
        """Return it as the engine's memory holds it."""
        last = track.last
        if last is None:
            return cls(belief=track.belief.value)
        return cls(belief=track.belief.value, code=last.code, detail=last.detail, at_us=last.at_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Why nothing is done."""

    reason: str
    sentence: str
    advice: str
    numbers: Mapping[str, object]
    runbook: str
    """The page about the reason, from the top of the repository."""
    until_us: int | None

    @property
    def page(self) -> str:
        """Return the page's name, by which it is found with no network."""
        return PurePosixPath(self.runbook).stem

    def as_json(self) -> Shown:
        """Return it under the names of the fields."""
        return {
            "reason": self.reason,
            "sentence": self.sentence,
            "advice": self.advice,
            "numbers": dict(self.numbers),
            "runbook": self.runbook,
            "until_us": self.until_us,
            "until_at": iso(self.until_us),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """The action that is under way right now."""

    action: str
    action_id: str
    status: str
    by: str
    stage: str
    """Of the step under way; empty before the first and between two."""
    operation: str
    since_us: int
    step_us: int | None
    expires_us: int | None = None
    """Until when a request waits that something holds."""

    def as_json(self, now_us: int) -> Shown:
        """Return it with what has elapsed."""
        return {
            "action": self.action,
            "action_id": self.action_id,
            "status": self.status,
            "by": self.by,
            "stage": self.stage,
            "operation": self.operation,
            "since_us": self.since_us,
            "since_at": iso(self.since_us),
            "elapsed_s": _elapsed_s(self.since_us, now_us),
            "step_elapsed_s": None if self.step_us is None else _elapsed_s(self.step_us, now_us),
            "expires_us": self.expires_us,
            "expires_at": iso(self.expires_us),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer of `why`: how a node is and why, what was decided, what is done, and what comes at worst."""

    now_us: int
    node: Shown
    called: str
    """What commands may call it: its name, or the beginning of its id where others bear it too."""
    since_us: int
    believed: str
    modes: Sequence[Shown] = ()
    """Each detection mode's belief and last word; empty where no engine here remembers any."""
    watched: bool
    """Whether an engine holds the cluster's watch right now."""
    watcher: Shown | None = None
    """Which one: engine_id, host, pid, since when, and whether it lives in this process."""
    policy: str
    """Name of the policy in force; empty without one."""
    decision: Shown | None
    held: Held | None
    doing: Doing | None
    last: Sequence[Shown]
    last_attempt: Sequence[Shown] = ()
    """Where the newest recovery that failed did not get on: operation, stage, result, detail."""
    disk_lost: str = ""
    """Why the disk could not be kept that the newest incident gave up, or is about to."""
    bound: Sequence[str]
    halted: str = ""
    """The stop or the maintenance that covers it: who has said so, and why."""
    outage: Shown | None = None
    """The open incident of the host that the node failed with: id, host, cause, other nodes."""
    old_copies: Sequence[Shown] = ()
    """Hosts in quarantine because the node was moved off them: incident_id, host, reason."""
    in_doubt: str = ""
    """Profile of an update that did not succeed, and whose properties the copy may have all the same."""

    def as_json(self) -> Shown:
        """Return the answer, its sentences included."""
        return {
            "node": dict(self.node),
            "believed": self.believed,
            "modes": list(self.modes),
            "watched": self.watched,
            "watcher": None if self.watcher is None else dict(self.watcher),
            "policy": self.policy,
            "outage": None if self.outage is None else dict(self.outage),
            "old_copies": [dict(one) for one in self.old_copies],
            "decision": self.decision,
            "held": self.held.as_json() if self.held else None,
            "in_doubt": self.in_doubt,
            "doing": self.doing.as_json(self.now_us) if self.doing else None,
            "last": list(self.last),
            "last_attempt": [dict(step) for step in self.last_attempt],
            "disk_lost": self.disk_lost,
            "retry": self.node["retry"],
            "bound": list(self.bound),
            "halted": self.halted,
            "lines": list(self.lines()),
        }

    def lines(self) -> tuple[str, ...]:
        """Return the answer in plain sentences, the most urgent first."""
        return (
            *self._state(),
            *self._belief(),
            *self._with_its_host(),
            *self._left_behind(),
            *self._decided(),
            *self._rechecked(),
            *self._under_way(),
            *self._tried(),
            *self._history(),
            *self._prospect(),
        )

    def _state(self) -> Iterator[str]:
        node = self.node
        where = f" (cluster {node['cluster']})" if node["cluster"] else ""
        elapsed = duration(_elapsed_s(self.since_us, self.now_us))
        yield (
            f"{node['name']}{where} is {node['health']} since {_short(self.since_us)} ({elapsed});"
            f" status {node['status']}"
            + (f", the backend says {node['backend_status']!r}" if node["backend_status"] else "")
            + "."
        )
        if self.in_doubt:
            yield (
                f"An update to profile {self.in_doubt} was begun and did not succeed: the copy may have"
                " the properties of that one. Update it again, to that profile or to another one."
            )
        if node["gray"]:
            yield self._gray()

    def _gray(self) -> str:
        """Say which of the two it is: sources that contradict each other, or one that warns."""
        beliefs = {mode["belief"] for mode in self.modes}
        if {Belief.UP.value, Belief.DOWN.value} <= beliefs:
            return "Its sources disagree (gray): some say well, some do not."
        rows = [(mode["mode"], OUTCOMES.get(str(mode["code"]))) for mode in self.modes]
        warned = [
            f"{mode}: {row.sentence}"
            for mode, row in rows
            if row is not None and row.outcome is Outcome.WARN
        ]
        if warned:
            return f"One of its checks warns (gray). {' '.join(warned)}"
        return (
            "Its sources disagree, or one of them warns (gray): the engine that watches it knows."
        )

    def _why_well(self) -> str:
        beliefs = {mode["belief"] for mode in self.modes}
        if Belief.DOWN.value in beliefs:
            return "The policy takes it for unhealthy only where all of its checks fail."
        if Belief.PENDING.value in beliefs:
            return "That was so before; now its checks are counted afresh, and nothing is done meanwhile."
        if Belief.UNKNOWN.value in beliefs:
            return "We believe that because those of its checks that can be asked pass."
        return "We believe that because its checks pass."

    def _belief(self) -> Iterator[str]:
        if self.believed:
            yield f"We believe that because: {self.believed}"
        elif self.policy and self.watched and self.node["health"] == Health.HEALTHY:
            yield self._why_well()
        # Where all agree, the belief has said it already.
        if self.node["gray"] or len({m["belief"] for m in self.modes} | _SETTLED) > len(_SETTLED):
            yield from (self._mode(mode) for mode in self.modes)
        mark = self.node["mark"]
        if isinstance(mark, Mapping):
            yield (
                f"{mark['by']} marked it unhealthy at {mark['at']}: {mark['reason']}."
                f" No check erases that; `yaffle node mark healthy {self.called}` does."
            )
        if not self.node["cluster_id"]:
            yield "It belongs to no cluster, so nothing watches it: check or recover it by hand."
            return
        if not self.policy:
            yield "No health policy is in force: nothing is detected; recoveries have to be asked for."
        if not self.watched:
            yield "No engine watches it right now: what is said here may be old. See `yaffle doctor`."
        elif self.watcher is not None and not self.watcher["here"]:
            yield (
                f"The engine on {self.watcher['host']} (pid {self.watcher['pid']}) watches it since"
                f" {str(self.watcher['since_at'])[:19]}Z; the last word of each check is known there"
                " only, what is said here was read from the database."
            )

    def _left_behind(self) -> Iterator[str]:
        for one in self.old_copies:
            yield (
                f"It was moved off a host that is in quarantine since (incident"
                f" {str(one['incident_id'])[:8]}): {one['reason']}"
                " More about it: `yaffle explain host-quarantined`."
            )

    def _with_its_host(self) -> Iterator[str]:
        if self.outage is None:
            return
        host, others = self.outage["host"], self.outage["others"]
        lost = self.outage["cause"] == Fault.HOST_LOST
        what = (
            "is lost" if lost else "answers for none of its nodes, though it is not known as lost"
        )
        yield (
            f"Its {host} {what}, with {count(others, 'other')}:"
            f" `yaffle incident show {str(self.outage['incident_id'])[:8]}`."
        )

    def _mode(self, mode: Shown) -> str:
        at_us = mode["at_us"]
        if not isinstance(at_us, int):
            return f"Check {mode['mode']}: believed {mode['belief']}; it has not been heard of."
        ago = duration(_elapsed_s(at_us, self.now_us))
        return (
            f"Check {mode['mode']}: believed {mode['belief']}; its last answer, {ago} ago:"
            f" {mode['detail']} ({mode['code']})."
        )

    def _decided(self) -> Iterator[str]:
        if self.held is not None:
            held = self.held
            yield f"It is left alone ({held.reason}): {held.sentence}"
            if held.until_us is not None:
                left_s = (held.until_us - self.now_us) / 1e6
                yield f"That ends by itself at {_short(held.until_us)} (in {duration(left_s)})."
            yield f"What you can do: {held.advice}"
            yield f"More about it: `yaffle explain {held.page}` ({held.runbook})"
        elif self.decision is not None and self.decision["kind"] == "recover":
            inputs = self.decision["inputs"]
            ladder = inputs.get("ladder") if isinstance(inputs, Mapping) else None
            names = ", ".join(map(str, ladder)) if isinstance(ladder, list) else ""
            numbers = _numbers(self.decision["numbers"])
            yield f"Last decided at {self.decision['at']}: recover it with {names}{numbers}."
            yield from _helpless(self.decision["numbers"])

    def _rechecked(self) -> Iterator[str]:
        """Say whether the decision that was just told is one that follows from its own record."""
        decided = self.decision
        if decided is None or (self.held is None and decided["kind"] != "recover"):
            return
        found = decided.get("recheck")
        if isinstance(found, Mapping):
            yield sentence(dict(found))

    def _under_way(self) -> Iterator[str]:
        if self.doing is None:
            return
        doing = self.doing
        total = duration(_elapsed_s(doing.since_us, self.now_us))
        step = f", step {doing.stage}" if doing.stage else ""
        what = f" ({doing.operation})" if doing.operation else ""
        for_s = f" for {duration(_elapsed_s(doing.step_us, self.now_us))}" if doing.step_us else ""
        who = f", requested by {doing.by}" if doing.by else ""
        yield f"Right now: {doing.action} is {doing.status}{step}{what}{for_s}; {total} in all{who}."
        if doing.expires_us is not None:
            yield (
                f"That request waits until {_short(doing.expires_us)} at the longest, and then looks at"
                f" the node first; take it back: `yaffle action cancel {doing.action_id[:8]}`."
            )

    def _tried(self) -> Iterator[str]:
        if self.disk_lost:
            yield f"The disk of the copy that failed could not be kept: {self.disk_lost}"
        told = [_refusal(step) for step in self.last_attempt]
        if told and not (self.held and self.held.numbers.get(MISSING)):
            yield f"The last attempt failed: {'; '.join(told)}"

    def _history(self) -> Iterator[str]:
        for one in self.last:
            yield f"Incident {str(one['id'])[:8]}: {_story(one)}"

    def _tired(self) -> bool:
        """Whether it would rest before it is recovered again, or would not be at all."""
        retry = self.node["retry"]
        if not isinstance(retry, Mapping):
            return False
        spent = bool(retry["allowed"]) and retry["attempts"] >= retry["allowed"]
        return spent or (retry.get("next_us") or 0) > self.now_us

    def _prospect(self) -> Iterator[str]:
        retry = self.node["retry"]
        if isinstance(retry, Mapping) and (retry["attempts"] or retry["exhausted"]):
            # The rest begins with the recovery; while that runs there is none to speak of.
            rests = self.doing is None and (retry.get("next_us") or 0) > self.now_us
            rest = f"; it backs off until {retry['next_at']}" if rests else ""
            ident = retry.get("incident_id")
            ack = f": `yaffle incident ack {str(ident)[:8]}`" if ident else ""
            over = f"; a person has to acknowledge it{ack}" if retry["exhausted"] else ""
            of = f" of {retry['allowed']}" if retry["allowed"] else ""
            yield f"Attempts used: {retry['attempts']}{of}{rest}{over}."
        if self.halted and self.held is None:
            yield f"Nothing is done about it, should it fail, while this is in force: {self.halted}"
        elif self.bound and self.watched and self.held is None and not self._tired():
            yield f"At worst, by policy {self.policy}: {self.bound[0]}."


def _refusal(step: Shown) -> str:
    """Return `RECREATE, at its fence: refused: it is locked`."""
    at = "" if step["stage"] == Stage.ACT else f", at its {step['stage']}"
    return f"{step['operation']}{at}: {step['detail']}"


def _story(incident: Shown) -> str:
    """Return `recovered; down: detected after 1 s, started after 1.1 s, recovered after 2.4 s`."""
    times = incident["timeline_ms"]
    told = (
        [
            f"{name} after {duration(at_ms / 1000)}"
            for name, at_ms in times.items()
            if name != "failed" and isinstance(at_ms, (int, float))
        ]
        if isinstance(times, Mapping)
        else []
    )
    return f"{incident['state']}; {incident['cause']}: {', '.join(told)}."


def _helpless(numbers: object) -> Iterator[str]:
    """Say which rungs of the policy were not tried, and why."""
    left_out = numbers.get("left_out") if isinstance(numbers, Mapping) else None
    if isinstance(left_out, list) and left_out:
        yield (
            f"{', '.join(map(str, left_out))} of the policy was left out: the backend does not know the"
            " copy any more, so that nothing done to it could help."
        )


def _numbers(numbers: object) -> str:
    if not isinstance(numbers, Mapping) or not numbers:
        return ""
    return " (" + ", ".join(f"{name} {value}" for name, value in numbers.items()) + ")"


def _elapsed_s(from_us: int, now_us: int) -> float:
    return round(max(0, now_us - from_us) / 1e6, 3)


def duration(seconds: float) -> str:
    """Return `0.3 s`, `12 s`, `3 min 5 s`, `2 h 10 min` or `3 d 4 h`."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    whole = int(seconds)
    for size, name, part, small in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // part} {small}"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def _short(us: int) -> str:
    """Return the time to the second."""
    return f"{str(iso(us))[:19]}Z"
