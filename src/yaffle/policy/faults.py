"""Places of faults: dotted path, and line:column when the document came as YAML text.

Paths are tuples of keys and list places from the top of the document. People read them without the
leading `properties` (design/interfaces): `policy.yaml:8:12 detection.detection_modes.1.options.poll_url`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from yaffle.errors import NotFound

Path = tuple[str | int, ...]
SHOWN_MAX: Final = 60
LINES_MAX: Final = 200
"""More help nobody, and the answer to a hostile document stays small."""


class UnknownPolicyType(NotFound):
    """The document is of a type or version that nobody here reads; Senlin answers 404 to that."""

    def __init__(self, kind: str, version: str, problems: tuple[str, ...]) -> None:
        self.problems = problems
        """The same in our words: with the place, near misses and what is known."""
        super().__init__(
            f"The policy_type '{kind}-{version}' could not be found.", hint="; ".join(problems)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Line and column, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of a document, or a warning."""

    path: Path
    text: str
    """What is wrong and what to do about it."""
    at_key: bool = False
    """Point at the key rather than at its value."""
    mark: Mark | None = None
    """Set when the place is not that of the path: a second key, a line that does not parse."""


@dataclass(slots=True, kw_only=True)
class Places:
    """Turns faults into lines for people; filled by the reader and by the compatibility rewrites."""

    source: str | None
    """Name of the text; None for a document without lines (JSON over HTTP)."""
    values: dict[Path, Mark] = field(default_factory=dict)
    keys: dict[Path, Mark] = field(default_factory=dict)
    origins: dict[Path, Path] = field(default_factory=dict)
    """Rewritten path to the path the author wrote; longest prefix wins."""

    def written(self, path: Path) -> Path:
        """Return the path as the author wrote it."""
        for end in range(len(path), 0, -1):
            if (origin := self.origins.get(path[:end])) is not None:
                return origin + path[end:]
        return path

    def mark(self, fault: Fault) -> Mark:
        """Return the place of the fault, or of the nearest thing around it that exists."""
        if fault.mark is not None:
            return fault.mark
        path = self.written(fault.path)
        if fault.at_key and path in self.keys:
            return self.keys[path]
        for end in range(len(path), -1, -1):
            if path[:end] in self.values:
                return self.values[path[:end]]
        return Mark(line=1, column=1)

    def describe(self, fault: Fault) -> str:
        """Return `source:line:column path: text`, or `path: text` for a document without lines."""
        return self._line(self.mark(fault), fault)

    def describe_all(self, faults: Iterable[Fault]) -> tuple[str, ...]:
        """Return one line per distinct fault, in the order of the text, up to LINES_MAX."""
        placed = [(self.mark(fault), fault) for fault in faults]
        if self.source is not None:
            placed.sort(key=lambda pair: (pair[0].line, pair[0].column))
        lines = tuple(dict.fromkeys(self._line(mark, fault) for mark, fault in placed))
        if len(lines) <= LINES_MAX:
            return lines
        return (*lines[:LINES_MAX], f"and {len(lines) - LINES_MAX} more")

    def _line(self, mark: Mark, fault: Fault) -> str:
        dotted = dotted_path(self.written(fault.path))
        if self.source is None:
            return f"{dotted or 'document'}: {fault.text}"
        place = f"{self.source}:{mark.line}:{mark.column}"
        return f"{place} {dotted}: {fault.text}" if dotted else f"{place}: {fault.text}"


def dotted_path(path: Path) -> str:
    """Return the path as people read it, without the leading `properties`."""
    if len(path) > 1 and path[0] == "properties":
        path = path[1:]
    return ".".join(shown_text(str(part)) for part in path)


def shown(value: object) -> str:
    """Return a short, harmless rendering of anything a document may hold."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing"
    # str() of an int beyond 4300 digits raises.
    if isinstance(value, int) and abs(value) >= 10**18:
        return "a huge number"
    if isinstance(value, float) and value.is_integer() and abs(value) < 10**15:
        return str(int(value))
    return shown_text(str(value) if isinstance(value, (int, float)) else repr(value))


def shown_text(text: str) -> str:
    """Return `text` printable and cut to a length that fits on a line."""
    cut = text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…"
    return "".join(char if char.isprintable() else "�" for char in cut)


def near_miss(word: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Return ` (did you mean X?)` for a word that is nearly right, or nothing.

    `prefix` is what all known words begin with: it must not make strangers look alike.
    """
    by_fold = {name.removeprefix(prefix).casefold(): name for name in known}
    given = word.removeprefix(prefix)[:SHOWN_MAX].casefold()
    close = difflib.get_close_matches(given, by_fold, n=1, cutoff=0.6)
    return f" (did you mean {by_fold[close[0]]}?)" if close else ""


def listed(names: Iterable[str]) -> str:
    """Return `a, b, c`."""
    return ", ".join(names)
