"""Times on the wire: Senlin writes them in four ways, and its clients have learnt each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
US_MAX = 253_402_300_799_999_999
"""The last microsecond of the year 9999, which `datetime` can still say."""


def _at(us: int) -> datetime:
    return datetime.fromtimestamp(min(max(us, 0), US_MAX) // 1_000_000, UTC)


def zulu(us: int | None) -> str | None:
    """Return `2026-11-20T08:46:32Z`: of nearly everything."""
    return None if us is None else f"{_at(us):%Y-%m-%dT%H:%M:%SZ}"


def stored(us: int | None) -> str | None:
    """Return `2026-11-20T08:46:32.000000`: of policies that are read back."""
    return None if us is None else f"{_at(us):%Y-%m-%dT%H:%M:%S.000000}"


def exact(us: int | None) -> str | None:
    """Return `2026-11-20T08:46:32.123456`: all times of the instance-HA API."""
    return None if us is None else f"{_at(us):%Y-%m-%dT%H:%M:%S}.{us % 1_000_000:06}"


def offset(us: int) -> str:
    """Return `2026-11-20T08:46:32+00:00`: of events."""
    return f"{_at(us):%Y-%m-%dT%H:%M:%S+00:00}"


def bare(us: int) -> str:
    """Return `2026-11-20T08:46:32`: of services."""
    return f"{_at(us):%Y-%m-%dT%H:%M:%S}"


def seconds(us: int | None) -> float | None:
    """Return seconds since 1970: when actions start and end."""
    return None if us is None else us / 1_000_000


def us_of(text: str) -> int:
    """Return the time that a client has written, UTC where it says no offset; ValueError for none."""
    found = datetime.fromisoformat(text)
    since = (found if found.tzinfo else found.replace(tzinfo=UTC)) - EPOCH
    return since // timedelta(microseconds=1)
