"""Output of answers: JSON for programs, columns for people, nothing that bites a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

_COLOURS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "healthy": "32",
        "ACTIVE": "32",
        "recovered": "32",
        "already-healthy": "32",
        "ok": "32",
        "suspect": "33",
        "held": "33",
        "WARNING": "33",
        "RECOVERING": "36",
        "recovering": "36",
        "initializing": "36",
        "CREATING": "36",
        "unhealthy": "31",
        "CRITICAL": "31",
        "ERROR": "31",
        "exhausted": "31",
        "fail": "31",
        "warn": "33",
        "away": "33",
    }
)
_CELL_MAX: Final = 120

Column = tuple[str, str | Callable[[Mapping[str, object]], object]]
"""Heading, and the key of the value or a function of the row."""


class Output:
    """The output of a command."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._colour = (
            not as_json
            and sys.stdout.isatty()
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )

    def json(self, data: object) -> None:
        """Print one JSON document."""
        print(json.dumps(data, indent=2, ensure_ascii=False, default=str))

    def say(self, data: object, text: str) -> None:
        """Print `data` as JSON, or `text` for people."""
        if self.as_json:
            self.json(data)
        else:
            print(clean(text))

    def table(
        self,
        data: object,
        found: Sequence[Mapping[str, object]],
        columns: Sequence[Column],
        *,
        empty: str,
    ) -> None:
        """Print `data` as JSON, or `found` in columns; `empty` says that there is nothing."""
        if self.as_json:
            self.json(data)
        elif not found:
            print(empty)
        else:
            self._columns(
                [heading for heading, _ in columns],
                [[_cell(row, source) for _, source in columns] for row in found],
            )

    def facts(self, data: object, pairs: Iterable[tuple[str, object]]) -> None:
        """Print `data` as JSON, or `pairs` as name and value, one a line."""
        if self.as_json:
            self.json(data)
            return
        known = [(name, shown(value)) for name, value in pairs if value not in (None, "")]
        width = max((len(name) for name, _ in known), default=0)
        for name, value in known:
            print(f"{name:<{width}}  {self._painted(value)}")

    def lines(self, data: object, lines: Iterable[str]) -> None:
        """Print `data` as JSON, or `lines`."""
        if self.as_json:
            self.json(data)
        else:
            for line in lines:
                print(clean(line))

    def _columns(self, headings: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        widths = [max(len(line[i]) for line in (headings, *cells)) for i in range(len(headings))]
        for place, line in enumerate((headings, *cells)):
            padded = [f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)]
            # Spaces are added before the colour, whose codes have a length but no width.
            painted = padded if place == 0 else [self._painted(cell) for cell in padded]
            print("  ".join(painted).rstrip())

    def _painted(self, text: str) -> str:
        code = _COLOURS.get(text.strip()) if self._colour else None
        return f"\x1b[{code}m{text}\x1b[0m" if code else text


def note(text: str) -> None:
    """Print a remark that is no part of the answer."""
    print(clean(text), file=sys.stderr)


def clean(text: str) -> str:
    """Return `text` without control characters: what nodes say must not command a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


def shown(value: object) -> str:
    """Return one value on one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(item)}" for key, item in value.items()) or "-"
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(item) for item in value) or "-"
    if isinstance(value, float):
        return f"{value:g}"
    return clean(str(value)).replace("\n", " ").replace("\t", " ")


def _cell(row: Mapping[str, object], source: str | Callable[[Mapping[str, object]], object]) -> str:
    text = shown(row.get(source) if isinstance(source, str) else source(row))
    return text if len(text) <= _CELL_MAX else text[: _CELL_MAX - 1] + "…"


def clock_time(us: object) -> str:
    """Return a stored time (µs, UTC) as local wall time with milliseconds; `-` for none."""
    if not isinstance(us, (int, float)):
        return "-"
    moment = datetime.fromtimestamp(us / 1e6, UTC).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"


def short(ident: object) -> str:
    """Return the beginning of an id, long enough to be taken for the whole."""
    return str(ident)[:8]


def moment(text: object) -> str:
    """Return a time as the clustering API writes it, as local wall time; `-` for none."""
    if not isinstance(text, str):
        return "-"
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return clean(text)
    # Times without a zone are UTC's.
    aware = found if found.tzinfo else found.replace(tzinfo=UTC)
    return aware.astimezone().strftime("%Y-%m-%d %H:%M:%S")
