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

_USERINFO = re.compile(r"//[^/@\s]*@")


class HealthError(Exception):
    """Anything this library raises by itself."""


class BadOption(HealthError, ValueError):
    """An option of the section [healthcheck] whose value cannot be meant."""

    def __init__(self, option: str, value: object, why: str) -> None:
        # A password that somebody wrote into an address must not reach the log.
        shown = _USERINFO.sub("//…@", repr(value))
        super().__init__(f"[healthcheck] {option} = {shown}: {why}")
        self.option, self.value, self.why = option, value, why


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
