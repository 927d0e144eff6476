"""Run of a program that must not outlive its time: what was asked, what came back.

What it is given goes over pipes and memory files, never through arguments, the environment or the disk;
whatever it prints is masked before anybody reads it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from yaffle.integrations.masking import masked
from yaffle.integrations.process_tree import end_below, started

OUTPUT_MAX: Final = 8_192
"""Bytes kept of each of the program's streams."""
KILLING_S: Final = 2.5
"""What the runner may take beyond the deadline to prove that the program is gone."""
_LET_GO_S: Final = 1.5
_KILL_S: Final = 0.5
"""Usually a few milliseconds; the loop stands still for as long."""
_ANSWER_MAX: Final = 262_144
_LINE_MAX: Final = 200
_RUNNER: Final = Path(__file__).with_name("bounded_runner.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """End of one run. `exit_code` is None when it did not end by itself."""

    exit_code: int | None
    out: str
    err: str
    fault: str = ""
    """Why we know less than an exit code; empty when it ended by itself."""

    @property
    def detail(self) -> str:
        """Return one line for a person."""
        said = _last_line(self.err) or _last_line(self.out)
        word = self.fault or f"exit {self.exit_code}"
        return f"{word}: {said}" if said else word


async def run_program(
    program: Path, text: str, hidden: Iterable[str] = (), *, within_s: float
) -> Ran:
    """Run it once; killed with all its children when `within_s` are over or the caller gives up."""
    request = {
        "program": str(program),
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
        # It gets no turn. The program would die with it (PDEATHSIG), but not what that has started:
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
    """Return the end of what the program printed, without its secrets."""
    text = str(said)
    return masked(text, hidden, cut=len(text.encode(errors="replace")) >= OUTPUT_MAX)


def _lost(fault: str) -> Ran:
    return Ran(exit_code=None, out="", err="", fault=fault)


def _last_line(text: str) -> str:
    found = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return found[-1][:_LINE_MAX] if found else ""
