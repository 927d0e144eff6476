"""Run of a fence agent, seen from the engine: what was asked, what came back, what it means.

The agent's options go over pipes and memory files, never through arguments, the environment or the
disk; whatever it prints is masked before anybody reads it. (`fence_ipmilan` itself hands the
password to `ipmitool -P`, which wipes it from its arguments when it starts: docs/howto.)
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from yaffle.integrations.masking import masked
from yaffle.integrations.process_tree import end_below, started

OUTPUT_MAX: Final = 8_192
"""Bytes kept of each of the agent's streams."""
KILLING_S: Final = 2.5
"""What the runner may take beyond the deadline to prove that the agent is gone."""
_LET_GO_S: Final = 1.5
_KILL_S: Final = 0.5
"""Usually a few milliseconds; the loop stands still for as long."""
_ANSWER_MAX: Final = 262_144
_LINE_MAX: Final = 200
_RUNNER: Final = Path(__file__).with_name("runner.py")
_SAYS: Final = re.compile(r"\bstatus:\s*(on|off)\b", re.IGNORECASE)
_STRANGE: Final = re.compile(r"unknown option|ignoring .*option", re.IGNORECASE)


class Power(StrEnum):
    """Power of the host by the word of `status`."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """End of one run. `exit_code` is None when it did not end by itself."""

    exit_code: int | None
    out: str
    err: str
    fault: str = ""
    """Why we know less than an exit code; empty when the agent ended by itself."""

    @property
    def detail(self) -> str:
        """Return one line for a person."""
        said = _last_line(self.err) or _last_line(self.out)
        word = self.fault or f"exit {self.exit_code}"
        return f"{word}: {said}" if said else word


def power_of(ran: Ran) -> Power:
    """Return what a `status` means (FenceAgentAPI: 0 is on, 2 is off, anything else is an error).

    2 is also how a shell, or Python's argparse, says that it was called wrongly. So off counts only
    from an agent that says so, or that has nothing to complain of; and words that contradict the
    exit code leave us knowing nothing.
    """
    said = {word.lower() for word in _SAYS.findall(ran.out)}
    if ran.fault or len(said) > 1:
        return Power.UNKNOWN
    match ran.exit_code:
        case 0 if said <= {"on"}:
            return Power.ON
        case 2 if said == {"off"} or not (said or ran.err.strip()):
            return Power.OFF
        case _:
            return Power.UNKNOWN


def misunderstood(ran: Ran) -> bool:
    """Whether the agent did not know an option: it may then speak of another plug than ours."""
    return _STRANGE.search(ran.err) is not None or _STRANGE.search(ran.out) is not None


def lines(action: str, options: Mapping[str, str], secrets: Mapping[str, str]) -> str:
    """Return what the agent reads on its standard input."""
    return "".join(
        f"{key}={value}\n" for key, value in {**options, **secrets, "action": action}.items()
    )


async def run_agent(agent: Path, text: str, hidden: Iterable[str], *, within_s: float) -> Ran:
    """Run it once; killed with all its children when `within_s` are over or the caller gives up."""
    request = {
        "agent": str(agent),
        "input": text,
        "timeout_s": within_s,
        "max_output": OUTPUT_MAX,
    }
    try:
        runner = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_RUNNER)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
            limit=_ANSWER_MAX,
        )
    except OSError as error:
        return _lost(f"could not be started: {error.strerror}")
    since = started(runner.pid)
    try:
        answer = await _told(runner, request, within_s + KILLING_S)
    finally:
        await _let_go(runner, since)
    return _ran(answer, tuple(hidden))


async def _told(
    runner: asyncio.subprocess.Process, request: Mapping[str, object], within_s: float
) -> bytes:
    """Return the runner's one line; empty where there was none."""
    if runner.stdin is None or runner.stdout is None:
        return b""
    try:
        async with asyncio.timeout(within_s):
            runner.stdin.write(json.dumps(request).encode() + b"\n")
            await runner.stdin.drain()
            return await runner.stdout.readline()
    except (TimeoutError, OSError, ValueError):
        return b""


async def _let_go(runner: asyncio.subprocess.Process, since: str) -> None:
    """Close the pipe, at which the runner kills what is left, and see it end."""
    if runner.stdin is not None:
        runner.stdin.close()
    try:
        async with asyncio.timeout(_LET_GO_S):
            await runner.wait()
    except (TimeoutError, asyncio.CancelledError) as error:
        # It gets no turn. The agent would die with it (PDEATHSIG), but not what the agent has started:
        # a late "off" would hit whoever runs on the host by then.
        end_below(runner.pid, since, within_s=_KILL_S)
        with suppress(ProcessLookupError):
            # It has ended at the last moment.
            runner.kill()
        await runner.wait()
        if isinstance(error, asyncio.CancelledError):
            raise


def _ran(answer: bytes, hidden: tuple[str, ...]) -> Ran:
    try:
        told = json.loads(answer)
    except (ValueError, RecursionError):
        return _lost("its runner gave no answer")
    if not isinstance(told, dict):
        return _lost("its runner gave an answer of another kind")
    code = told.get("exit")
    return Ran(
        # A truth value is no exit code, though Python takes it for one.
        exit_code=code if type(code) is int else None,
        out=_printed(told.get("out", ""), hidden),
        err=_printed(told.get("err", ""), hidden),
        fault=masked(str(told.get("fault", "")), hidden),
    )


def _printed(said: object, hidden: tuple[str, ...]) -> str:
    """Return the end of what the agent printed, without its secrets."""
    text = str(said)
    return masked(text, hidden, cut=len(text.encode(errors="replace")) >= OUTPUT_MAX)


def _lost(fault: str) -> Ran:
    return Ran(exit_code=None, out="", err="", fault=fault)


def _last_line(text: str) -> str:
    found = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return found[-1][:_LINE_MAX] if found else ""
