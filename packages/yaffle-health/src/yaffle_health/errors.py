"""What can go wrong before a process can show its health: a bad option, a refused bind, no such group.

HealthError
├── BadOption (ValueError)      an option's value cannot be meant: names the option and the value
│   └── BadUri                  one entry of the `uri` list
├── BindFailed                  an address that was asked for cannot be listened on
└── UnknownGroup (LookupError)  somebody asked for a group of checks that does not exist
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# Greedy: a password may hold any character.
_USERINFO = re.compile(r"//.*@", re.DOTALL)
_SHOWN_CHARS_MAX: Final = 300


def _shown(value: object) -> str:
    """A value in a message: no password that somebody wrote into an address, and no novel."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  a stranger's __repr__, and whole numbers of 4,300 digits
        text = f"a {type(value).__name__}"
    text = _USERINFO.sub("//…@", text)
    return text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…"


class HealthError(Exception):
    """Anything this library raises by itself."""


class BadOption(HealthError, ValueError):
    """An option of the section [healthcheck] whose value cannot be meant."""

    def __init__(self, option: str, value: object, why: str) -> None:
        super().__init__(f"[healthcheck] {option} = {_shown(value)}: {why}")
        self.option, self.value, self.why = option, value, why

    @property
    def shown(self) -> str:
        """The value as it may be shown to people."""
        if isinstance(self.value, str):
            return _USERINFO.sub("//…@", self.value)[:_SHOWN_CHARS_MAX]
        return _shown(self.value)


class BadUri(BadOption):
    """One entry of the `uri` list is no address to listen on."""


class BindFailed(HealthError):
    """An address that was asked for cannot be listened on; the service lives on unless it is required."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"[healthcheck] uri: cannot listen on {address}: {why}")
        self.address, self.why = address, why


class UnknownGroup(HealthError, LookupError):
    """No such group of checks; `known` are the ones there are."""

    def __init__(self, group: str, known: Iterable[str]) -> None:
        self.group, self.known = group, tuple(sorted(known))
        super().__init__(f"no group {group[:64]!r}: there are {', '.join(self.known) or 'none'}")
