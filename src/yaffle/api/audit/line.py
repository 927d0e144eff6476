"""One line of the audit log: JSON whose last member is the hash of all before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

BEGINNING: Final = "0" * 64
"""Stands where the first line of all names the hash of the one before it."""
_TAIL: Final = len(',"hash":""}') + 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """The chained part of a line that was read: its number, its hash, and the hash before it."""

    seq: int
    prev: str
    hash: str


def sealed(seq: int, prev: str, facts: Mapping[str, object]) -> tuple[bytes, str]:
    """Return the line, with its end, and its hash."""
    text = json.dumps({"seq": seq, **facts, "prev": prev}, separators=(",", ":"))
    found = hashlib.sha256(text.encode("ascii")).hexdigest()
    return f'{text[:-1]},"hash":"{found}"}}\n'.encode("ascii"), found


def opened(line: bytes) -> Sealed | None:
    """Return what a line (without its end) says of itself; None where it was changed."""
    body = line[:-_TAIL] + b"}"
    try:
        facts = json.loads(line)
        found = Sealed(seq=int(facts["seq"]), prev=str(facts["prev"]), hash=str(facts["hash"]))
    except (ValueError, KeyError, TypeError):
        return None
    if not line.endswith(f',"hash":"{found.hash}"}}'.encode()):
        return None
    return found if hashlib.sha256(body).hexdigest() == found.hash else None
