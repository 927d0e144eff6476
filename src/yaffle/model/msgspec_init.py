"""Prepares msgspec types before threads use them; without that they crash the process.

msgspec (0.22.0 and before) works out what it has to know of a class when it reads the first one, and
publishes that before it is complete. A second thread that reads the same shape meanwhile follows a
null pointer. An engine that takes over several recoveries at once did exactly that.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What reading a document that somebody else has written raises, in msgspec and in the standard library.

A byte that is no UTF-8 is a UnicodeDecodeError, and so a ValueError; brackets in brackets are too deep.
Neither is a DecodeError of msgspec's, which alone has let an answer of a cloud end what asked it.
"""

MISREAD: Final = (LookupError, TypeError, AttributeError, *UNREADABLE)
"""How a library fails over a document that it took for its own kind: where a field is used first."""

ready: set[type] = set()
"""Every class that was made ready, for the test that none was forgotten."""


def prepared(kind: type[T]) -> type[T]:
    """Return the class, ready for any thread: a decorator, so that it is done while importing."""
    msgspec.json.Decoder(kind)
    ready.add(kind)
    return kind
