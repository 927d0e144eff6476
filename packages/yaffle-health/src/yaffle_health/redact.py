"""What may be shown of an error's text: one line, bounded, and without the passwords it carries.

Errors of databases and message buses print the address they could not reach, password included,
and /health is read by anyone who can connect. Too much hidden is a nuisance, too little a breach:
in doubt these patterns hide.

Every pattern takes time in proportion to the text: what it has run over without success it does not
run over again from the next letter, hence the possessive quantifiers (`*+`) and the patterns that
match where there is nothing to hide, only to go on behind it. A group is never possessive: before
3.11.5 Python took more than such a group matches (gh-106052, gh-100061), and passwords were shown.
What repeats a group stands where nothing behind it fails, or only once for each run of it.
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
    r"(?:pass(?:word|wd|wort|phrase|code|key)|passwd|pswd|pwd|secret|token|api_?key|access_?key"
    r"|credentials?|session_?id|signature|authorization|cookie|private_?key|connection_?string"
    r"|(?<![a-z])(?:key|sig)(?![a-z]))"
)
# These are also words of everyday: "2 of 3 pass: ok". They count before = and in quotes; as the last
# part of a name (admin_pass, adminPass) they count before a colon as well.
_SHORT_WORD: Final = r"(?:pass|psw|pw|auth)"
_SHORT_PART: Final = r"(?:(?i:[_-](?:pass|psw|pw|auth))|(?<=[a-z0-9])(?:Pass|Psw|Pw|Auth))"
_IS: Final = r"""(?:\\?["']? ?(?:,? ?\\?["']?value\\?["']?)? ?(?:=>?|:) ?)"""
_BESIDE: Final = r"""(?:(?<!key) (?:is )?(?=\\?["'])|\()"""
# The quotes of JSON within JSON have a backslash. A quoted value ends with its quote or with the text.
_QUOTED: Final = r"""(?:\\?"(?:[^"\\]|\\.?)*"?|\\?'(?:[^'\\]|\\.?)*'?)"""
# A bare one goes on over a comma or bracket within a word, unless the next thing is assigned to.
_BARE: Final = r"""(?:[^\s,;&)\]}"']|[)\]}"'](?=\w)|[,;&](?=\w)(?![\w.-]*+(?:\\?["'])? ?[=:]))+"""
_VALUE: Final = rf"(?:{_QUOTED}|{_BARE})"
_HOST_AND_PORT: Final = r"""[^\s"'<>/@:]*+:(?:[0-9]{1,5}(?![^\s"'<>,;/)\]?:])|(?=\s)|$)"""

_Instead = str | Callable[[re.Match[str]], str]


@functools.cache
def _says_secret() -> re.Pattern[str]:
    return re.compile(rf"(?i:{_SECRET_WORD}|(?<![a-z]){_SHORT_WORD}\b)|{_SHORT_PART}\b")


def _without_login(address: re.Match[str]) -> str:
    # Up to the last @: a password may hold @ and /, and one URL of oslo.messaging many hosts.
    run, rest = address[1], address[2]
    if "@" in run:
        return f"://{HIDDEN}@{run.rpartition('@')[2]}{rest}"
    # What breaks off after "user:" was no port: a password that holds a blank, a quote or a bracket.
    has_login = ":" in run and "@" in rest and not run.startswith("[")
    if has_login and not re.match(_HOST_AND_PORT, run + rest):
        return f"://{HIDDEN}@{rest.rpartition('@')[2]}"
    return address[0]


def _without_bare_login(word: re.Match[str]) -> str:
    _, login, rest = word[2].rpartition("@")
    return f"{word[1]}{HIDDEN}@{rest}" if login else word[0]


def _without_quoted_login(word: re.Match[str]) -> str:
    ends = list(re.finditer("%(?:25)*40", word[0]))
    return f"{word[1]}{HIDDEN}{word[0][ends[-1].start() :]}" if ends else word[0]


def _as_assigned(flag: re.Match[str]) -> str:
    # A flag's value is hidden as any other, once it is written with "=".
    return f"{flag[1]}=" if _says_secret().search(flag[1]) else flag[0]


def _without_content(element: re.Match[str]) -> str:
    if element[2].strip() and _says_secret().search(element[1]):
        return f"{element[1]}{HIDDEN}"
    return element[0]


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
        # All up to the next address: each piece of the text is looked at for one address alone.
        (re.compile(r"""://((?:(?!://)[^\s"'<>])*)((?:(?!://).)*)"""), _without_login),
        # user:password@host without a scheme, as Go's drivers write it.
        (re.compile(r"(?<![\w.+-])([\w.+-]++:)(?!//)(\S++)"), _without_bare_login),
        (re.compile(r"""(%(?:25)*3A)[^\s"'<>&]++""", re.IGNORECASE), _without_quoted_login),
        (re.compile(r"(?<!\S)((?:-u|--(?:proxy-)?user)[ =]?[^\s:]++:)\S++"), rf"\1{HIDDEN}"),
        (re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*+) (?!-)"), _as_assigned),
        (re.compile(r"(<[\w:.-]++[^<>]*+>)((?:<!\[CDATA\[)?[^<]*+)"), _without_content),
        (
            re.compile(
                r"\b((?i:bearer|basic|digest)) (?=(?:[^\W0-9A-Z]|[.~+/-])*[0-9A-Z=])[\w.~+/=-]{6,}+"
            ),
            rf"\1 {HIDDEN}",
        ),
        # These headers have several values, and all that follows may be theirs.
        (
            re.compile(
                rf"""((?:cookies?2?|authorization)\\?["']? ?(?:=>?|:) ?)(?:{_QUOTED}|.+)""",
                re.IGNORECASE,
            ),
            rf"\1{HIDDEN}",
        ),
        (
            re.compile(
                rf"\b(identified (?:with \S++ )?(?:by |as (?=['\"]))(?:password )?){_VALUE}",
                re.IGNORECASE,
            ),
            rf"\1{HIDDEN}",
        ),
        (
            re.compile(
                rf"{_SECRET_WORD}[\w.-]*+(?:({_IS}|{_BESIDE})(?!\*\*\*){_VALUE})?",
                re.IGNORECASE,
            ),
            _without_value,
        ),
        (
            re.compile(
                rf"""((?i:{_SHORT_WORD})(?: ?=>? ?|\\?["'] ?(?:=>?|:) ?)|{_SHORT_PART} ?(?:=>?|:) ?)"""
                rf"(?!\*\*\*){_VALUE}"
            ),
            rf"\1{HIDDEN}",
        ),
        # Tokens that betray themselves: JSON web tokens, Keystone's Fernet tokens, cloud keys.
        (re.compile(r"\beyJ[\w-]{8,}+(?:\.[\w-]*+)*"), HIDDEN),
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


@functools.lru_cache(maxsize=1024)
def identifier(text: str | None) -> str | None:
    """What may be shown of a component's id: some take the address of a database for one."""
    return None if text is None else clean(text)


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
