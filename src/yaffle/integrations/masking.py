"""Keeps secrets out of what programs and services say: whoever was given one may print it.

Stdlib only: programs' runners, which are started with nothing else, mask before they write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MASK: Final = "***"
_PIECE_MIN: Final = 8
"""A line of a longer secret is one too, but for short ones: they would blank out half a message."""
_REST_MIN: Final = 4
"""What is left of a secret whose beginning was cut off counts as one from here on."""


def masked(text: str, hidden: Iterable[str], *, cut: bool = False) -> str:
    """Return `text` without these secrets; `cut`: its beginning is lost, in a secret's middle perhaps."""
    secrets = sorted(_pieces(hidden), key=len, reverse=True)
    if cut:
        text = _unbegun(text, secrets)
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def _pieces(hidden: Iterable[str]) -> set[str]:
    """Return each secret, and each line of one that has several: programs say one line at a time."""
    whole = {secret for secret in hidden if secret.strip()}
    lines = {line.strip() for secret in whole for line in secret.splitlines()}
    return whole | {line for line in lines if len(line) >= _PIECE_MIN}


def _unbegun(text: str, secrets: Iterable[str]) -> str:
    """Return the text without the rest of a secret at its very beginning."""
    rests = (
        length
        for secret in secrets
        for length in range(len(secret) - 1, _REST_MIN - 1, -1)
        if text.startswith(secret[-length:])
    )
    longest = max(rests, default=0)
    return MASK + text[longest:] if longest else text
