"""One `openstack cluster …` of a table, with what it has to say, and the process that runs them all."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.openstack.clients import environment

Row = Mapping[str, object]
WITHIN_S: Final = 180.0
"""Two servers are built within five seconds on a machine that has nothing else to do; here, much."""
AGAIN_S: Final = 0.3
ANSWER_S: Final = 180.0
ACTION: Final = r"accepted by action:? (?P<action>[0-9a-f-]{36})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command, and what is expected of it; `{name}` in its words stands for what a step has kept."""

    words: str
    """What comes after `openstack cluster`."""
    shows: Row | None = None
    """The one object, or the part of it that matters; a pattern has to match the whole value."""
    lists: Sequence[Row] | None = None
    """As `shows`, of every row."""
    says: str = ""
    """A pattern that is found in what is printed; what its named groups match is kept."""
    code: int = 0
    keeps: Mapping[str, str] = field(default_factory=dict)
    """By the name under which it is kept, a column of the object, or of the first row."""
    until: bool = False
    """Whether it may take its time to come true."""


def ask(words: str, **more: Any) -> Step:
    """A command that starts an action, whose id is kept as `action`."""
    return Step(words=words, says=ACTION, **more)


def ended(status: str = "SUCCEEDED", **more: object) -> Step:
    """Wait for the action that the last command has started."""
    return Step(words="action show {action}", shows={"status": status, **more}, until=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str


class Shell:
    """`openstack` in one process, as a user of clouds.yaml."""

    def __init__(self, clouds_yaml: Path, cloud: str, folder: Path) -> None:
        self.kept: dict[str, str] = {"folder": str(folder)}
        ours = {k: v for k, v in os.environ.items() if not k.startswith("OS_")}
        self._process = subprocess.Popen(
            [environment.provide(), environment.HERE / "inside.py"],
            env={**ours, "OS_CLIENT_CONFIG_FILE": str(clouds_yaml), "OS_CLOUD": cloud},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=ANSWER_S)

    def run(self, words: str, *, as_json: bool = False) -> Said:
        """Run one command of `openstack cluster`."""
        filled = [word.format(**self.kept) for word in shlex.split(words)]
        line = json.dumps(["cluster", *filled, *(["-f", "json"] if as_json else [])])
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return Said(**json.loads(self._process.stdout.readline()))

    def wrong(self, step: Step) -> str:
        """Do a step, again and again if it may take its time; return what is wrong, or nothing."""
        missing = set(re.findall(r"\{(\w+)\}", step.words)) - self.kept.keys()
        if missing:
            return f"{step.words}: no step before it has told {missing}"
        end = time.monotonic() + WITHIN_S
        while True:
            said = self.run(step.words, as_json=(step.shows, step.lists) != (None, None))
            found = self._compared(step, said)
            if not found or not step.until or time.monotonic() > end:
                return f"{step.words}: {found}\n{said.out}{said.err}" if found else ""
            time.sleep(AGAIN_S)

    def _compared(self, step: Step, said: Said) -> str:
        if said.code != step.code:
            return f"ended with {said.code}, not {step.code}"
        match = re.search(step.says, said.out + said.err, re.MULTILINE)
        if match is None:
            return f"does not say {step.says!r}"
        self.kept |= match.groupdict()
        if step.shows is None and step.lists is None:
            return ""
        told = json.loads(said.out)
        rows = told if step.shows is None else [told]
        wanted = (step.lists or []) if step.shows is None else [step.shows]
        if len(rows) != len(wanted):
            return f"{len(rows)} rows, not {len(wanted)}"
        self.kept |= {name: str(rows[0][column]) for name, column in step.keeps.items()}
        unlike = [d for row, want in zip(rows, wanted, strict=True) for d in _unlike(row, want)]
        return "; ".join(unlike)


def _unlike(row: Row, wanted: Row) -> list[str]:
    return [f"{key} is {row.get(key)!r}" for key, want in wanted.items() if not _is(row, key, want)]


def _is(row: Row, key: str, want: object) -> bool:
    if isinstance(want, re.Pattern):
        return key in row and want.fullmatch(str(row[key])) is not None
    return key in row and row[key] == want
