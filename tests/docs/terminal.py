"""A shell that types what a page shows, and compares what it says with what the page promises.

In the expected lines `…` stands for anything within a line, and alone in a line for any lines.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MARK: Final = "--done-"
PAUSE_S: Final = 0.3


class Differs(AssertionError):
    """The page says one thing and the program another."""


def pattern(expected: str) -> re.Pattern[str]:
    """Return what output has to look like."""
    parts = []
    for line in expected.splitlines():
        if line.strip() == "…":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            words = [re.escape(word).replace("…", ".*?") for word in line.split()]
            parts.append(
                r"[ \t]*" + r"[ \t]+".join(words).replace(r".*?", r"[^\n]*?") + r"[ \t]*\n"
            )
    return re.compile("".join(parts))


def matches(expected: str, output: str) -> bool:
    """Whether `output` is what the page promises; a page that promises nothing takes anything."""
    if not expected.strip():
        return True
    return pattern(expected).fullmatch(output.rstrip("\n") + "\n") is not None


def dialogue(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with the output that the page shows below it."""
    command: str | None = None
    shown: list[str] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, "\n".join(shown)
            command, shown = line[2:], []
        else:
            shown.append(line)
    assert command is not None, f"no command in {text!r}"
    yield command, "\n".join(shown)


class Terminal:
    """One bash that keeps its variables from command to command."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=variables,
            start_new_session=True,
        )
        self._count = 0

    def run(self, command: str, timeout_s: float = 60.0) -> tuple[str, int]:
        """Return what the command printed, standard error included, and its exit code."""
        self._count += 1
        mark = f"{MARK}{self._count}"
        self.type(f"{command}\necho; echo {mark} $?\n")
        output = self.read(re.compile(rf"\n{mark} (\d+)\n"), timeout_s)
        text, code = output.rsplit(f"\n{mark} ", 1)
        return text.lstrip("\n"), int(code)

    def type(self, text: str) -> None:
        """Write to the shell."""
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def read(self, until: re.Pattern[str], timeout_s: float) -> str:
        """Return what was printed until `until` matched; raise Differs when it does not in time."""
        assert self._process.stdout is not None
        seen = ""
        ends = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._process.stdout, selectors.EVENT_READ)
            while until.search(seen) is None:
                left = ends - time.monotonic()
                if left <= 0 or not waiting.select(left):
                    raise Differs(f"nothing like {until.pattern!r} within {timeout_s:g} s:\n{seen}")
                chunk = os.read(self._process.stdout.fileno(), 65536)
                if not chunk:
                    raise Differs(f"the shell ended:\n{seen}")
                seen += chunk.decode(errors="replace")
        return seen

    def close(self) -> None:
        """End the shell and what runs in it, politely first."""
        group = self._process.pid
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(group, number)
                self._process.wait(30)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        self._process.wait(60)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
