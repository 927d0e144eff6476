"""Readings as people read them, and as programs do: lines that no peer can play tricks with."""

from __future__ import annotations

import json
from collections.abc import Iterator

from yaffle_health.model import Check
from yaffle_health.reader import Reading

NO_VERDICT = "none"
"""Stands where a status would, if there is no verdict."""


def text(reading: Reading) -> str:
    """Return a reading as lines: who and how, then a line for each check."""
    return "\n".join(_printable(line) for line in _lines(reading))


def line(reading: Reading) -> str:
    """Return a reading as one line: what is not well, and why."""
    unwell = [_check(c).strip() for c in (reading.health.checks if reading.health else ())]
    about = "; ".join(words for words in unwell if not words.startswith("pass"))
    return _printable(f"{_head(reading)}{': ' + about if about else ''}")


def as_json(reading: Reading) -> str:
    """Return a reading as one line of JSON; the documentation names its keys."""
    service = reading.health.service if reading.health else None
    return json.dumps(
        {
            "address": reading.address,
            "status": None if reading.status is None else reading.status.value,
            "problem": None if reading.problem is None else reading.problem.value,
            "why": reading.why,
            "http_status": reading.http_status,
            "took_s": round(reading.took_s, 6),
            "disagreements": list(reading.disagreements),
            "service_id": service.service_id if service else None,
            "description": service.description if service else None,
            "host": service.host if service else None,
            "checks": [_check_keys(c) for c in (reading.health.checks if reading.health else ())],
        }
    )


def _check_keys(check: Check) -> dict[str, object]:
    return {
        "name": check.name,
        "component_id": check.component_id,
        "status": check.status.value,
        "time": check.time.isoformat(),
        "age_s": round(check.age_s, 3),
        "expired": check.expired,
        "output": check.output,
    }


def _lines(reading: Reading) -> Iterator[str]:
    yield _head(reading)
    for remark in reading.disagreements:
        yield f"  note  {remark}"
    checks = reading.health.checks if reading.health else ()
    width = max((len(_label(c)) for c in checks), default=0)
    for check in checks:
        yield _check(check, width)


def _head(reading: Reading) -> str:
    status = NO_VERDICT if reading.status is None else reading.status.value
    if reading.problem is not None:
        return f"{status}  {reading.address}  {reading.problem}: {reading.why}"
    service = reading.health.service if reading.health else None
    named = f"  {service.description}" if service and service.description else ""
    where = f" on {service.host}" if service and service.host else ""
    return f"{status}  {reading.address}{named}{where}"


def _check(check: Check, width: int = 0) -> str:
    output = f"  {check.output}" if check.output else ""
    return f"  {check.status.value}  {_label(check):<{width}}  {_ago(check.age_s)}{output}"


def _label(check: Check) -> str:
    return check.name if check.component_id is None else f"{check.name} [{check.component_id}]"


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"


def _printable(words: str) -> str:
    """Replace what could move a terminal's cursor or change its title: a peer chose these words."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in words)
