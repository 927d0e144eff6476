"""The words of a process's health: the three states, one check, and all of them at one moment.

The manager makes a `Health`, everything else (endpoints, views, gauges, readers) only shows one.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum

WARN_WORDS = frozenset({"warn", "warning"})
FAIL_WORDS = frozenset({"fail", "error", "down"})
PASS_WORDS = frozenset({"pass", "ok", "up"})


class Status(enum.StrEnum):
    """How one check, or the whole process, is (seed 4, "Definitions")."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"

    @property
    def http_status(self) -> int:
        """200 for pass and warn, 503 for fail (seed 4; draft-inadarei-api-health-check-06 §3.1)."""
        return 503 if self is Status.FAIL else 200

    @classmethod
    def parse(cls, word: str) -> Status:
        """Read a status in any case, aliases included; ValueError names the word.

        "error" is the seed's own slip for fail; ok/up and down are the draft's aliases.
        """
        lowered = word.strip().lower()
        if lowered in PASS_WORDS:
            return cls.PASS
        if lowered in WARN_WORDS:
            return cls.WARN
        if lowered in FAIL_WORDS:
            return cls.FAIL
        raise ValueError(f"{word!r} is not a health status: use pass, warn or fail")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One health item as it is now.

    `status` counts expiry in: an item older than its time to live is `warn`, whatever it said last
    (`last_status`). `time` is when it was last reported, aware UTC; `age_s` by the monotonic clock.
    `output` is there if and only if `status` is not pass.
    """

    name: str
    status: Status
    time: dt.datetime
    age_s: float
    component_id: str | None = None
    component_type: str = "component"
    output: str | None = None
    expired: bool = False
    last_status: Status = Status.PASS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Who speaks: `service_id` the service's own id, `description` the binary's name, `host` the
    configured host, `hostname` the hypervisor's if there is one, `release` the service's version."""

    service_id: str
    description: str
    host: str
    hostname: str | None = None
    release: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The whole process, or one group of its checks, at one moment.

    `checks` is sorted by name, then component id. `next_expiry_s` is how long until the next live
    item that does not fail expires, and with it the overall status may change; None when none will.
    """

    status: Status
    service: Service
    checks: tuple[Check, ...] = ()
    next_expiry_s: float | None = None
