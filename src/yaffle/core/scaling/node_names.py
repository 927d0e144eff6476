"""Names of a cluster's new nodes: the directives of `node.name.format`.

`$I` is the node's index and `$<n>I` the same with zeros in front, n digits wide; `$<n>R` is a
random string of n letters and digits (8 if n is not given) and `$<n>r` the same in lower case. All
else is taken as it is. Chance is handed in: `pick(n)` returns a number from 0 to n - 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from string import ascii_letters, digits
from typing import Final

DEFAULT: Final = "node-$8R"
KEY: Final = "node.name.format"
"""Under which a cluster's `config` holds the format."""
NAME_MAX: Final = 255
RANDOM_LENGTH: Final = 8
INDEX_DIGITS: Final = 10
"""Digits that an index is reckoned with where its width is not given."""
_DIRECTIVE: Final = re.compile(r"\$([0-9]{0,8})([rRI])", re.ASCII)
# The characters that a name may have (contracts/clustering-api#names): these, and CJK.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~\-\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7a3]*")


def fault(fmt: str) -> str | None:
    """Return why no name can be made with `fmt`; the empty format means the default."""
    plain = _DIRECTIVE.sub("", fmt)
    if "$" in plain:
        return f"{KEY}: a '$' that begins none of $<n>I, $<n>R and $<n>r"
    if not _PLAIN.fullmatch(plain):
        return f"{KEY}: a name has letters, digits, '.', '_', '-' and '~' only"
    if _DIRECTIVE.sub(lambda found: "x" * min(1, _longest(*found.groups())), fmt)[:1] == "-":
        return f"{KEY}: a name that begins with '-' would be an option to every command"
    longest = len(plain) + sum(_longest(width, kind) for width, kind in _DIRECTIVE.findall(fmt))
    if longest > NAME_MAX:
        return f"{KEY}: names of up to {longest} characters; at most {NAME_MAX} are possible"
    return f"{KEY}: every name would be empty" if fmt and not longest else None


def render(fmt: str, *, index: int, pick: Callable[[int], int]) -> str:
    """Return the name of the node with this index."""

    def filled(match: re.Match[str]) -> str:
        width, kind = match.groups()
        if kind == "I":
            return str(index).zfill(int(width or 0))
        text = "".join(_characters(int(width or RANDOM_LENGTH), pick))
        return text.lower() if kind == "r" else text

    name = _DIRECTIVE.sub(filled, fmt or DEFAULT)
    # A format that was stored before such names were refused, or was imported.
    return f"n{name}" if name.startswith("-") else name


def _characters(length: int, pick: Callable[[int], int]) -> Iterator[str]:
    """Yield a letter and then letters and digits: some backends refuse names that begin with 0-9."""
    for place in range(length):
        alphabet = ascii_letters + digits if place else ascii_letters
        yield alphabet[pick(len(alphabet))]


def _longest(width: str, kind: str) -> int:
    if kind == "I":
        return max(int(width or 0), INDEX_DIGITS)
    return int(width or RANDOM_LENGTH)
