"""A health as plain tuples: marshal takes them from one process of a Python to another at once.

Ages are told as moments of CLOCK_MONOTONIC, which all processes of a machine share: what was written
once goes on to age where it is read.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from yaffle_health.model import Check, Health, Service, Status

# status, time (s since 1970), moment of the report, name, component_id, component_type, output,
# expired, last_status
Row = tuple[str, float, float, str, str | None, str, str | None, bool, str]
Speaker = tuple[str, str, str, str | None, str | None]
# status, who speaks, the checks, the moment of the next expiry
Plain = tuple[str, Speaker, tuple[Row, ...], float | None]
UNTOLD: Final = False
"""Of a group whose health cannot be told, because the host's code raises."""
Told = dict[str | None, Plain | bool]
# ttl_s, cache_control, cache_cap, format, group, connections_max, timeout_s, silent_max_s, and
# which of the listeners others hold, too
Settings = tuple[float, int | None, bool, str, str | None, int, float, float, tuple[bool, ...]]
Document = tuple[Settings, Told, tuple[str, ...]]
"""What is written: how to answer, the health of each group, and which groups there are."""


def plain(health: Health, now: float, known: dict[Row, Row]) -> Plain:
    """Write a health down that was told at `now`; equal rows of several groups are one in `known`."""
    # To the millisecond, so that the same report is the same row in each group.
    rows = [row_of(check, round(now - check.age_s, 3)) for check in health.checks]
    left_s = health.next_expiry_s
    return (
        str(health.status.value),
        speaker_of(health.service),
        tuple([known.setdefault(row, row) for row in rows]),
        None if left_s is None else now + left_s,
    )


def restored(told: Plain, now: float) -> Health:
    """The health as it is now, if nothing has changed since but ages."""
    status, speaker, rows, expires_at = told
    return Health(
        status=Status(status),
        service=service_of(speaker),
        checks=tuple([check_of(row, now) for row in rows]),
        next_expiry_s=None if expires_at is None else max(0.0, expires_at - now),
    )


def service_of(speaker: Speaker) -> Service:
    """Who speaks."""
    service_id, description, host, hostname, release = speaker
    return Service(
        service_id=service_id,
        description=description,
        host=host,
        hostname=hostname,
        release=release,
    )


def check_of(row: Row, now: float) -> Check:
    """One check, with the age that it has now."""
    status, time, at, name, component_id, component_type, output, expired, last_status = row
    return Check(
        name=name,
        status=Status(status),
        time=dt.datetime.fromtimestamp(time, dt.UTC),
        age_s=max(0.0, now - at),
        component_id=component_id,
        component_type=component_type,
        output=output,
        expired=expired,
        last_status=Status(last_status),
    )


def speaker_of(service: Service) -> Speaker:
    """Who speaks, written down."""
    return (
        _text(service.service_id),
        _text(service.description),
        _text(service.host),
        _optional(service.hostname),
        _optional(service.release),
    )


def row_of(check: Check, at: float) -> Row:
    """One check that was reported at that moment, written down."""
    return (
        str(check.status.value),
        check.time.timestamp(),
        at,
        _text(check.name),
        _optional(check.component_id),
        _text(check.component_type),
        _optional(check.output),
        bool(check.expired),
        str(check.last_status.value),
    )


def _text(text: str) -> str:
    # marshal refuses what only inherits from str, as names in enumerations do.
    return text if type(text) is str else str.__str__(text)


def _optional(text: str | None) -> str | None:
    return None if text is None else _text(text)
