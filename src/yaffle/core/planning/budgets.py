"""Budgets shared by many clusters: in-flight caps and token buckets for each scope.

A hundred three-node clusters that may each "always heal one" are still a storm, so a plan debits
every scope that a recovery touches, and what it has debited is stored in the transaction that admits
(design/failure#admission).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from yaffle.model.incident import HoldReason

if TYPE_CHECKING:
    from collections.abc import Mapping

SECOND: Final = 1_000_000


class Scope(StrEnum):
    """Whose budget it is, the widest first."""

    GLOBAL = "global"
    PROJECT = "project"
    DOMAIN = "domain"
    HOST = "host"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimit:
    """Limit of one scope: how much at once and over time."""

    max_in_flight: int
    burst: int
    """Recoveries that may start at once from a full bucket."""
    per_hour: float
    """How fast the bucket fills."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The stored state of one scope and key."""

    tokens: float
    updated_us: int
    in_flight: int = 0
    """Counted from the active recoveries, not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why admission says no."""

    reason: HoldReason
    numbers: Mapping[str, object]
    until_us: int | None


Key = tuple[Scope, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """The buckets that a plan may draw on, as its transaction read them; nobody else spends meanwhile."""

    limits: Mapping[Scope, BudgetLimit]
    buckets: Mapping[Key, Bucket] = field(default_factory=dict)

    def spent(self, after: Mapping[Key, Bucket]) -> Budgets:
        """Return the budgets after a recovery that was debited: it is in flight from here on."""
        started = {key: replace(b, in_flight=b.in_flight + 1) for key, b in after.items()}
        return replace(self, buckets={**self.buckets, **started})


LATE_US: Final = 60 * SECOND
"""A pass is late by less; a clock that was set back by more is believed, lest nothing flows for long."""


def refill(bucket: Bucket, limit: BudgetLimit, now_us: int) -> Bucket:
    """Return the bucket as of now; a clock that was set back gives nothing and takes nothing."""
    elapsed_s = max(0, now_us - bucket.updated_us) / SECOND
    tokens = min(float(limit.burst), bucket.tokens + elapsed_s * limit.per_hour / 3600)
    # What a pass that commits late has not seen has flowed in already, and must not a second time.
    late = 0 < bucket.updated_us - now_us <= LATE_US
    return replace(bucket, tokens=tokens, updated_us=bucket.updated_us if late else now_us)


def debit(
    buckets: Mapping[Key, Bucket], limits: Mapping[Scope, BudgetLimit], now_us: int
) -> Mapping[Key, Bucket] | Refusal:
    """Take one token from every bucket, or none at all: the first refusal names its scope."""
    after: dict[Key, Bucket] = {}
    for key in sorted(buckets, key=lambda k: (list(Scope).index(k[0]), k[1])):
        scope, name = key
        limit = limits[scope]
        bucket = refill(buckets[key], limit, now_us)
        numbers = {"scope": scope.value, "key": name}
        if bucket.in_flight >= limit.max_in_flight:
            return Refusal(
                reason=HoldReason.IN_FLIGHT,
                numbers={**numbers, "in_flight": bucket.in_flight, "limit": limit.max_in_flight},
                until_us=None,
            )
        if bucket.tokens < 1:
            # A bucket that holds less than one token, or is never filled, cannot promise an end.
            fills = limit.per_hour > 0 and limit.burst >= 1
            wait_s = (1 - bucket.tokens) * 3600 / limit.per_hour if fills else None
            return Refusal(
                reason=HoldReason.RATE,
                numbers={**numbers, "burst": limit.burst, "per_hour": limit.per_hour},
                until_us=None if wait_s is None else now_us + int(wait_s * SECOND) + 1,
            )
        after[key] = replace(bucket, tokens=bucket.tokens - 1)
    return after
