"""What may be shown of an error's text: one line, bounded, and without the passwords it carries.

Errors of databases and message buses print the address they could not reach, password included,
and /health is read by anyone who can connect. Too much hidden is a nuisance, too little a breach:
in doubt these patterns hide.

Every pattern takes time in proportion to the text: what it has run over without success it does not
run over again from the next letter, hence the possessive quantifiers (`*+`) and the patterns that
match where there is nothing to hide, only to go on behind it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final

OUTPUT_CHARS_MAX: Final = 256
# No more than this is kept of any text.
KEPT_CHARS_MAX: Final = 8192
# Patterns run over no more than this of a text of any length: four times what can be shown of it.
LOOKED_AT_CHARS_MAX: Final = 1024
HIDDEN: Final = "***"

_SECRET_WORD: Final = (
    r"(?:pass(?:word|wd|phrase|code)|passwd|pwd|secret|token|api_?key|access_?key|credentials?"
    r"|signature|authorization|cookie|private_?key|connection_?string"
    r"|(?<![a-z])(?:key|sig)(?![a-z]))"
)
# These are also words of everyday: "2 of 3 pass: ok". They count before = or as a key in quotes.
_EVERYDAY_WORD: Final = r"(?:\b(?:pass|pw|auth) ?=|[\"'](?:pass|pw|auth)\\?[\"'] ?:)"
# The quotes of JSON within JSON have a backslash. A quoted value ends with its quote or with the text.
_VALUE: Final = r"""(?:\\?"(?:[^"\\]|\\.?)*+"?|\\?'(?:[^'\\]|\\.?)*+'?|[^\s,;&)\]}"']+)"""

_Instead = str | Callable[[re.Match[str]], str]


def _without_login(address: re.Match[str]) -> str:
    # Up to the last @: a password may hold @ and /, and one URL of oslo.messaging many hosts.
    _, login, rest = address[0].rpartition("@")
    return f"://{HIDDEN}@{rest}" if login else address[0]


def _without_value(word: re.Match[str]) -> str:
    assigned = word[1]
    return word[0] if assigned is None else f"{word[0][: word.end(1) - word.start()]}{HIDDEN}"


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], _Instead], ...]:
    """Compiled at the first failure: a program that never fails never pays for them."""
    return (
        # SQLAlchemy prints the statement and its parameters after the error itself.
        (re.compile(r"\[(?:SQL|parameters):.*"), ""),
        (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY.*"), HIDDEN),
        (re.compile(r"""://[^\s"'<>]*+"""), _without_login),
        (
            re.compile(
                r"\b((?i:bearer|basic|digest)) (?=(?:[^\W0-9A-Z]|[.~+/-])*+[0-9A-Z=])[\w.~+/=-]{6,}+"
            ),
            rf"\1 {HIDDEN}",
        ),
        (
            re.compile(
                rf"""{_SECRET_WORD}[\w.-]*+(?:(\\?["']? ?(?:=>?|:) ?)(?!\*\*\*){_VALUE})?""",
                re.IGNORECASE,
            ),
            _without_value,
        ),
        (re.compile(rf"({_EVERYDAY_WORD} ?){_VALUE}", re.IGNORECASE), rf"\1{HIDDEN}"),
        # Tokens that betray themselves: JSON web tokens, Keystone's Fernet tokens, cloud keys.
        (re.compile(r"\beyJ[\w-]{8,}+(?:\.[\w-]*+)*+"), HIDDEN),
        (re.compile(r"\bgAAAAA[\w-]{16,}+=*+"), HIDDEN),
        (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), HIDDEN),
        (re.compile(r"\b(?:gh[pousr]_|glpat-|xox[abprs]-|sk-)[\w-]{16,}+"), HIDDEN),
    )


def clean(text: str) -> str:
    """One line of at most 256 characters, valid UTF-8, printable, secrets hidden."""
    if len(text) > LOOKED_AT_CHARS_MAX:
        # The last word may be half a secret, which no pattern would know any more.
        text = text[:LOOKED_AT_CHARS_MAX].rpartition(" ")[0] or HIDDEN
    text = hidden(" ".join(text.split()))
    text = "".join(char if char.isprintable() else " " for char in text)
    return cut(" ".join(text.split()))


def hidden(line: str) -> str:
    """The same without secrets; its blanks are single."""
    for pattern, instead in _patterns():
        line = pattern.sub(instead, line)
    return line


def cut(text: str) -> str:
    """Its first 256 characters, and whether there were more."""
    return text if len(text) <= OUTPUT_CHARS_MAX else text[: OUTPUT_CHARS_MAX - 1] + "…"


def words(output: object, *, messages: bool = True) -> str:
    """What somebody gave as the reason, as a text that is not yet cleaned; "" for nothing.

    Never raises: it is called where something has failed already. `messages` as in `told`.
    """
    if isinstance(output, str):
        return output
    if output is None:
        return ""
    if isinstance(output, BaseException):
        return told(output, message=messages)
    if isinstance(output, bytes | bytearray):
        return output[:KEPT_CHARS_MAX].decode("utf-8", "replace")
    try:
        return str(output)
    except Exception:  # noqa: BLE001  as in `told`
        return type(output).__qualname__


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
