"""Lengths of time as people write them: 90s, 15m, 2h, 1d, 1h30m; a bare number is seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import typer

_UNITS: Final[Mapping[str, float]] = MappingProxyType(
    {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
)
_PART: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)", re.ASCII)
_BARE: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?", re.ASCII)


def parse(text: str) -> float:
    """Return seconds; raise ValueError that says how to write one."""
    written = text.strip().lower()
    if _BARE.fullmatch(written):
        return float(written)
    parts = _PART.findall(written)
    if not parts or "".join(number + unit for number, unit in parts) != written:
        raise ValueError(f"{text!r} is no length of time; write 90s, 15m, 2h or 1d")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def option(text: str | float) -> float:
    """Parse a duration as `parse` does, with the error that the command line reports as a wrong use."""
    if not isinstance(text, str):
        # Defaults, which are seconds already, come through here as well.
        return text
    try:
        seconds = parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if seconds <= 0:
        raise typer.BadParameter(f"{text!r} is no time at all; give more than 0")
    return seconds


def shown(seconds: float) -> str:
    """Return a length of time for people, two units at most: 340 ms, 2.4 s, 12m 5s, 3h, 2d 4h."""
    if seconds < 0:
        return f"-{shown(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, whole = divmod(whole, int(_UNITS[unit]))
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
