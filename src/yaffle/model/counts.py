"""Numbers of things in sentences."""

from __future__ import annotations


def count(number: object, noun: str) -> str:
    """Return `1 node` or `3 nodes`; `noun` is the singular."""
    if number == 1:
        return f"1 {noun}"
    regular = not noun.endswith(("s", "x"))
    return f"{number} {noun}{'s' if regular else 'es'}"
