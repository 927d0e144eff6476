"""What may be shown of an error's text: one line, bounded, and without the passwords it carries.

Errors of databases and message buses print the address they could not reach, password included,
and /health is read by anyone who can connect. Too much hidden is a nuisance, too little a breach:
in doubt these patterns hide.
"""

from __future__ import annotations

import functools
import re
from typing import Final

OUTPUT_CHARS_MAX: Final = 256
# No more than this is kept of any text; one longer than the next is known to have been cut.
KEPT_CHARS_MAX: Final = 8192
# Patterns run over no more than this of a text of any length.
_LOOKED_AT_CHARS: Final = 4096
HIDDEN: Final = "***"

_SECRET_WORD: Final = (
    r"(?:pass(?:word|wd|phrase|code)|passwd|pwd|secret|token|api_?key|access_?key|credentials?"
    r"|signature|authorization|cookie|private_?key|connection_?string"
    r"|(?<![a-z])(?:key|sig)(?![a-z]))"
)
# These are also words of everyday: "2 of 3 pass: ok". They count before = or as a key in quotes.
_EVERYDAY_WORD: Final = r"(?:\b(?:pass|pw|auth)\s*=|[\"'](?:pass|pw|auth)[\"']\s*:)"
_VALUE: Final = r"""(?:"(?:[^"\\]|\\.)*(?:"|$)|'(?:[^'\\]|\\.)*(?:'|$)|[^\s,;&)\]}"']+)"""


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Compiled at the first failure: a program that never fails never pays for them."""
    return (
        # SQLAlchemy prints the statement and its parameters after the error itself.
        (re.compile(r"\s*\[(?:SQL|parameters):.*"), ""),
        (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY.*"), HIDDEN),
        # Up to the last @: a password may hold @ and /, and one URL of oslo.messaging many hosts.
        (re.compile(r"""([a-z][a-z0-9+.-]*://)[^\s"'<>]*@""", re.IGNORECASE), rf"\1{HIDDEN}@"),
        (
            re.compile(r"\b((?i:bearer|basic|digest))\s+(?=[\w.~+/-]*[0-9A-Z=])[\w.~+/=-]{6,}"),
            rf"\1 {HIDDEN}",
        ),
        (
            re.compile(
                rf"""([\w.-]*{_SECRET_WORD}[\w.-]*["']?\s*(?:=>?|:)\s*)(?!\*\*\*){_VALUE}""",
                re.IGNORECASE,
            ),
            rf"\1{HIDDEN}",
        ),
        (re.compile(rf"({_EVERYDAY_WORD}\s*){_VALUE}", re.IGNORECASE), rf"\1{HIDDEN}"),
        # Tokens that betray themselves: JSON web tokens, Keystone's Fernet tokens, cloud keys.
        (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?"), HIDDEN),
        (re.compile(r"\bgAAAAA[\w-]{16,}=*"), HIDDEN),
        (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), HIDDEN),
        (re.compile(r"\b(?:gh[pousr]_|glpat-|xox[abprs]-|sk-)[\w-]{16,}"), HIDDEN),
    )


@functools.lru_cache(maxsize=128)
def clean(text: str) -> str:
    """One line of at most 256 characters, valid UTF-8, printable, secrets hidden.

    Remembered, because one failure is read many times; what is kept of a text is bounded.
    """
    if len(text) > _LOOKED_AT_CHARS:
        # The last word may be half a secret, which no pattern would know any more.
        text = text[:_LOOKED_AT_CHARS].rpartition(" ")[0] or HIDDEN
    for pattern, instead in _patterns():
        text = pattern.sub(instead, text)
    text = "".join(char if char.isprintable() else " " for char in text)
    text = " ".join(text.split())
    if len(text) > OUTPUT_CHARS_MAX:
        return text[: OUTPUT_CHARS_MAX - 1] + "…"
    return text


def told(error: BaseException, *, message: bool = True) -> str:
    """The class's name and the first line of the message, not yet cleaned.

    With `message` False the name alone. An error that cannot print itself tells its name too.
    """
    name = type(error).__qualname__
    if not message:
        return name
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  a stranger's __str__ may raise anything, and this is no place to fail
        return name
    line = text[:KEPT_CHARS_MAX].strip().partition("\n")[0].strip()
    return f"{name}: {line}" if line else name
