"""Verifies an audit log: each line is what was written, and follows the one before it.

What cannot be known from the files alone: that all of them, with their head, were written anew by
somebody who may write them, and what stood in files that were removed at the beginning. Against both
helps a number and hash that was kept elsewhere (`expect`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from yaffle.api.audit.chain import files_of, head_of
from yaffle.api.audit.line import BEGINNING, opened
from yaffle.errors import ConfigError


@dataclass(slots=True, kw_only=True)
class Verdict:
    """The result of verifying a log."""

    role: str
    files: int
    first: int = 0
    """Lines before this one were removed, by rotation or by somebody."""
    last: int = 0
    head: str = BEGINNING
    problems: list[str] = field(default_factory=list)


def roles_in(folder: Path) -> list[str]:
    """Return whose logs there are; raise ConfigError where there is none."""
    if not folder.is_dir():
        raise ConfigError(
            f"{folder}: there is no audit log; is --state-dir that of the server, and `audit.files`"
            " not 0?"
        )
    names = {path.name.rpartition("-")[0] for path in folder.glob("*-*.log")}
    names |= {path.stem for path in folder.glob("*.head")}
    if not names:
        raise ConfigError(f"{folder}: there is no file of an audit log in it")
    return sorted(names)


def verify(folder: Path, role: str, expect: tuple[int, str] | None = None) -> Verdict:
    """Read a whole log; raise ConfigError for a file that cannot be read."""
    paths = files_of(folder, role)
    verdict = Verdict(role=role, files=len(paths))
    expected = expect is None
    head = head_of(folder, role)
    try:
        # Before the lines: a server that writes meanwhile is ahead of what was read, never behind.
        told = head.read_text("ascii", "replace").strip() if head.exists() else None
        for where, line in _lines(paths):
            found = opened(line)
            if found is None:
                verdict.problems.append(f"{where}: it was changed")
                continue
            if not verdict.first:
                verdict.first = found.seq
                genuine = found.seq != 1 or found.prev == BEGINNING
            else:
                genuine = found.seq == verdict.last + 1 and found.prev == verdict.head
            if not genuine:
                verdict.problems.append(
                    f"{where}: line {found.seq} does not follow line {verdict.last}: lines between"
                    " them were removed, added or changed"
                )
            verdict.last, verdict.head = found.seq, found.hash
            expected = expected or (found.seq, found.hash) == expect
        verdict.problems += _cut(head, told, verdict)
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: {error.strerror}") from None
    if not expected and expect is not None:
        verdict.problems.append(f"line {expect[0]} with the hash that you expect is not there")
    return verdict


def _lines(paths: list[Path]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    # Of a process that died while it wrote, or one that writes right now.
                    return
                yield f"{path}:{number}", line[:-1]


def _cut(head: Path, text: str | None, verdict: Verdict) -> Iterator[str]:
    """Yield what the head knows of lines that are not there."""
    if text is None:
        yield f"{head} is missing: it cannot be told whether the end was cut"
        return
    number, _, told = text.partition(" ")
    if not number:
        return
    if not number.isdigit():
        yield f"{head}: it was changed"
    elif int(number) > verdict.last:
        yield f"{int(number) - verdict.last} lines at the end were removed: {head} knows {int(number)}"
    elif int(number) == verdict.last and told != verdict.head:
        yield f"{head} knows another line {verdict.last}"
