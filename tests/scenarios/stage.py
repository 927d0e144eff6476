"""The commands of a story, one method each, and what they print.

A command that prints nothing of its own prints the health of every node. An outcome with `!` is
authoritative. Recoveries that a `plan` decides upon run until the story says how they `end`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.model.world import CLUSTER, World
from tests.unit.core.build import MODES, SECOND, STATUS, URL, observation, pause

from yaffle.core.health.check_codes import OUTCOMES
from yaffle.core.planning.planner import wake_of
from yaffle.core.planning.retry import FRESH
from yaffle.model.health import Mark, Observation
from yaffle.model.incident import Decision, Hold
from yaffle.model.policy import (
    Conditional,
    RecoveryMode,
    Threshold,
    WhenExceeded,
)

PLACES = {"status": STATUS, "url": URL}
WORDS = {
    "pass": "L7-OK",
    "warn": "L7-WARN",
    "timeout": "L4-TIMEOUT",
    "refused": "L4-REFUSED",
    "down": "ST-DOWN",
    "gone": "ST-GONE",
    "unknown": "X-LOCAL",
}
"""What a story calls an outcome: the row of `core.health.check_codes` that a detector would name."""


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


class Stage:
    """One story's world and the hands that move it."""

    def __init__(self) -> None:
        self.world = World()

    def play(self, line: str) -> list[str]:
        """Carry out one command and return what it prints."""
        verb, *words = line.split()
        command = getattr(self, f"do_{verb}", None)
        if command is None:
            raise ValueError(f"no such command: {line}")
        printed: list[str] | None = command(words)
        return self.healths() if printed is None else printed

    def names(self, text: str) -> list[str]:
        return list(self.world.members) if text == "*" else text.split(",")

    def healths(self) -> list[str]:
        self.world.conclude()
        return [" ".join(f"{n}={self._health(n)}" for n in self.world.members)]

    def _health(self, name: str) -> str:
        member = self.world.members[name]
        seen = member.memory
        notes = [
            word for word, said in (("gray", seen.gray), ("unsettled", not seen.settled)) if said
        ]
        notes += ["recovering"] if member.recovering else []
        return seen.health.value + (f"({','.join(notes)})" if notes else "")

    # --- the cluster and its policy

    def do_nodes(self, words: list[str]) -> list[str]:
        """`nodes a b c [in ZONE]`."""
        names, domain = (words[:-2], words[-1]) if "in" in words else (words, "")
        self.world.join(names, domain)
        return []

    def do_policy(self, words: list[str]) -> list[str]:
        """`policy key=value ...`: see the match."""
        for word in words:
            self._policy(*word.split("="))
        return []

    def _policy(self, key: str, value: str) -> None:
        world = self.world
        detection, recovery = world.detection, world.recovery
        limits, retry = recovery.limits, recovery.retry
        match key:
            case "rise" | "fall":
                detection = replace(detection, **{key: int(value)})  # type: ignore[arg-type]
            case "conditional":
                detection = replace(detection, conditional=Conditional(value))
            case "grace":
                detection = replace(detection, node_update_timeout_s=seconds(value))
            case "grace_ends_early":
                detection = replace(detection, grace_ends_early=value == "yes")
            case "modes":
                modes = tuple(MODES[PLACES[m]] for m in value.split(","))
                detection = replace(detection, modes=modes)
            case "max_unhealthy":
                limits = replace(limits, max_unhealthy=threshold(value))
            case "when_exceeded":
                limits = replace(limits, when_exceeded=WhenExceeded(value))
            case "max_in_flight":
                limits = replace(limits, max_in_flight=int(value))
            case "domain":
                limits = replace(limits, domain=value)
            case "attempts":
                retry = replace(retry, attempts=int(value))
            case "mode":
                recovery = replace(recovery, mode=RecoveryMode(value))
            case "desired_capacity":
                world.desired_capacity = int(value)
            case _:
                raise ValueError(f"no such policy word: {key}")
        world.detection = detection
        world.recovery = replace(recovery, limits=limits, retry=retry)

    # --- what is seen

    def do_see(self, words: list[str]) -> None:
        """`see MODE NODE=OUTCOME ... [xN]`: N rounds, an interval apart; `*` is everybody else."""
        times = int(words.pop()[1:]) if words[-1].startswith("x") else 1
        for _ in range(times):
            self.world.pass_time(self.world.detection.interval_s)
            self._round(words)

    def do_also(self, words: list[str]) -> None:
        """`also MODE NODE=OUTCOME ...`: in the same moment as the last round."""
        self._round(words)

    def _round(self, words: list[str]) -> None:
        mode, *pairs = words
        said: dict[str, str] = {}
        for pair in pairs:
            names, word = pair.split("=")
            for name in self.names(names):
                if names != "*" or name not in said:
                    said[name] = word
        for name, word in said.items():
            self.world.see(name, self._observation(mode, word))

    def _observation(self, mode: str, word: str) -> Observation:
        word, urgent, _ = word.partition("!")
        row = OUTCOMES[WORDS[word]]
        return observation(
            row.outcome.value,
            self.world.now_us,
            mode=PLACES[mode],
            code=row.code,
            answered=row.answered,
            authoritative=bool(urgent),
        )

    def do_wait(self, words: list[str]) -> None:
        """`wait 30s`; a negative time sets the clock back."""
        self.world.pass_time(seconds(words[0]))

    def do_resettle(self, words: list[str]) -> None:
        self.world.resettle()

    def do_references(self, words: list[str]) -> list[str]:
        """`references up|down ...`: one word for each."""
        self.world.references = tuple(word == "up" for word in words)
        return []

    # --- what people do

    def do_mark(self, words: list[str]) -> None:
        """`mark NODE by WHOM`."""
        name, _, whom = words
        self.world.mark(name, Mark(reason="marked by hand", by=whom, at_us=self.world.now_us))

    def do_lift(self, words: list[str]) -> None:
        self.world.mark(words[0], None)

    def do_pause(self, words: list[str]) -> list[str]:
        """`pause KIND SCOPE[:NODE] [for 60s]`."""
        kind, place, *rest = words
        scope, _, target = place.partition(":")
        until = self.world.now_us + int(seconds(rest[1]) * SECOND) if rest else None
        self.world.pauses.append(
            pause(
                kind,
                scope,
                CLUSTER if scope == "cluster" else target,
                id=f"p{len(self.world.pauses) + 1}",
                starts_us=self.world.now_us,
                expires_us=until,
            )
        )
        return []

    def do_resume(self, words: list[str]) -> list[str]:
        self.world.pauses = [p for p in self.world.pauses if p.id not in words]
        return []

    def do_release(self, words: list[str]) -> list[str]:
        """`release 60s`: the storm limit is let go for that long."""
        self.world.released_until_us = self.world.now_us + int(seconds(words[0]) * SECOND)
        return []

    def do_request(self, words: list[str]) -> list[str]:
        """`request NODE by WHOM`."""
        self.world.members[words[0]].requested_by = words[2]
        return []

    def do_acknowledge(self, words: list[str]) -> list[str]:
        self.world.members[words[0]].retry = FRESH
        return []

    def do_busy(self, words: list[str]) -> list[str]:
        """`busy NODE ACTION`; without an action it is free again."""
        self.world.members[words[0]].busy = words[1] if len(words) > 1 else ""
        return []

    # --- what the engine does

    def do_plan(self, words: list[str]) -> list[str]:
        """Decide, and start what is to be recovered."""
        decisions = self.world.act()
        lines = [self._told(d) for d in decisions] or ["nothing to decide"]
        wake_us = wake_of(decisions)
        if wake_us is not None:
            lines.append(f"look again in {self._in(wake_us)}")
        return lines

    def _told(self, decision: Decision) -> str:
        if isinstance(decision, Hold):
            until = "" if decision.until_us is None else f" until {self._in(decision.until_us)}"
            return f"{decision.node_id} hold {decision.reason}{until}{listed(decision.numbers)}"
        overrode = "".join(f" overriding {reason}" for reason in decision.overrode)
        tried = f"attempt {decision.numbers['attempt']}/{decision.numbers['attempts_allowed']}"
        return f"{decision.node_id} recover ({decision.cause}) {tried}{overrode}"

    def _in(self, at_us: int) -> str:
        return f"{(at_us - self.world.now_us) / SECOND:g}s"

    def do_end(self, words: list[str]) -> None:
        """`end NODE well|badly`."""
        for name in self.names(words[0]):
            self.world.end(name, well=words[1] == "well")

    def do_restart(self, words: list[str]) -> None:
        """`restart NODE`: a life-cycle change, as a user's update is."""
        for name in self.names(words[0]):
            self.world.end(name, well=True)


def threshold(value: str) -> Threshold:
    if value.endswith("%"):
        return Threshold(percent=float(value.removesuffix("%")))
    return Threshold(count=int(value))


def listed(numbers: Mapping[str, object]) -> str:
    return "".join(f" {key}={value}" for key, value in numbers.items())
