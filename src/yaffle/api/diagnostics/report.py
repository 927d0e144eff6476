"""Findings of the doctor, and what many of them come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum


class Status(StrEnum):
    """Severity of a finding, from good to bad."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The check of one thing that healing depends on."""

    name: str
    status: Status
    detail: str
    advice: str = ""
    """What to do about it; empty when it is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Every check, the worst status first named."""

    checks: Sequence[Check]
    engines: Sequence[Mapping[str, object]] = ()
    """Every engine that has been heard of lately, as plain values."""

    @property
    def status(self) -> Status:
        """The worst of all."""
        order = list(Status)
        return max((c.status for c in self.checks), key=order.index, default=Status.OK)

    def as_json(self) -> dict[str, object]:
        """Return the report as plain values."""
        return {
            "status": self.status.value,
            "checks": [asdict(c) for c in self.checks],
            "engines": [dict(e) for e in self.engines],
        }


def judged(name: str, bad: bool, detail: str, advice: str, *, worst: Status = Status.WARN) -> Check:
    """Return a check that is `worst` when `bad`, and says what to do only then."""
    if not bad:
        return Check(name=name, status=Status.OK, detail=detail)
    return Check(name=name, status=worst, detail=detail, advice=advice)


def unheard(why: str) -> Check:
    """Return the check of an engine that does not answer the API beside it."""
    return Check(
        name="engine",
        status=Status.FAIL,
        detail=why,
        advice="Nothing is watched or healed while it stands still; see its log, or restart Yaffle.",
    )
