"""Faults of a configuration: all are told at once, each with where it stands and with what was meant."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from yaffle.errors import ConfigError

PREFIX: Final = "YAFFLE_"

Place = tuple[int | str, ...]
Lines = Mapping[Place, int]

_WORD: Final = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_KEYS: Final = rf"\s*({_WORD}(?:\s*\.\s*{_WORD})*)\s*"
_LINE: Final = re.compile(rf"\[\[?{_KEYS}\]|{_KEYS}=")
_NAMED: Final = re.compile(rf"{_WORD}(?:\.{_WORD})*")


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that settings were read from, if any, and which setting stands in which line."""

    path: Path | None = None
    lines: Lines = field(default_factory=dict)

    def located(self, problems: Iterable[str]) -> list[str]:
        """Return problems that begin with a setting's name, each with where that was set, in order."""
        return [text for _, text in sorted(map(self._located, problems), key=lambda told: told[0])]

    def _located(self, problem: str) -> tuple[int, str]:
        named = _NAMED.match(problem)
        place = _place(named[0]) if named else ()
        variable, depth = _variable(place)
        at = _depth(place, self.lines)
        if depth and depth >= at:
            return 0, f"{variable}: {problem}"
        line = line_of(place, self.lines)
        return line, f"{self.path}:{line}: {problem}" if line else problem


class Faults:
    """Gathers what is wrong, so that one start tells all of it."""

    def __init__(self) -> None:
        self._problems: list[str] = []
        self._hints: list[str] = []

    @contextmanager
    def gather(self) -> Iterator[None]:
        """Keep the ConfigError that ends the block, for `settle`."""
        try:
            yield
        except ConfigError as error:
            self._problems += error.problems
            self._hints += [error.hint] if error.hint else []

    def settle(self, origin: Origin | None = None) -> None:
        """Raise ConfigError with all that was gathered, each thing once; do nothing for nothing."""
        if self._problems:
            problems = (origin or Origin()).located(dict.fromkeys(self._problems))
            raise ConfigError(problems, hint="\n".join(dict.fromkeys(self._hints)))


def meant(word: str, known: Iterable[str], *, otherwise: str) -> str:
    """Return the known name that is nearest to a misspelt one, as the end of a message."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else f"; {otherwise}"


def quoted(name: str) -> str:
    """Return a name as a part of a setting's full name, as it is written in the file."""
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else f'"{name}"'


def lines_of(text: str) -> Lines:
    """Return in which line of a TOML text each section and key stands; `tomllib` does not tell."""
    lines: dict[Place, int] = {}
    section: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        if (found := _LINE.match(line.strip())) is None:
            continue
        place = _place(found[1] or found[2])
        section, place = (place, place) if found[1] else (section, (*section, *place))
        for end in range(1, len(place) + 1):
            lines.setdefault(place[:end], number)
    return lines


def line_of(place: Place, lines: Lines) -> int:
    """Return the line of a setting, or of what it stands in; 0 where it is not in the file."""
    return lines[place[:at]] if (at := _depth(place, lines)) else 0


def _depth(place: Place, lines: Lines) -> int:
    """Return how many words of a place stand in the file."""
    return next((end for end in range(len(place), 0, -1) if place[:end] in lines), 0)


def _place(text: str) -> Place:
    return tuple(word.strip("\"'") for word in re.findall(_WORD, text))


def _variable(place: Place) -> tuple[str, int]:
    """Return the variable that sets it, or what it stands in, and how many words of it that names."""
    # Of one word alone, `YAFFLE_SERVER`, others make use as well.
    for end in range(len(place), 1, -1):
        name = PREFIX + "__".join(map(str, place[:end])).upper()
        if name in os.environ:
            return name, end
    return "", 0
