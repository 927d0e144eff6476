"""Answers of a balancer's sources, and what they mean for each node; nothing is asked here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from yaffle.core.health.check_codes import OUTCOMES, judge
from yaffle.core.health.lb_member_status import combined
from yaffle.drivers.detectors.load_balancer.member_matching import match
from yaffle.drivers.detectors.load_balancer.pool import Failed, Member, Pool
from yaffle.integrations.http import one_line
from yaffle.model.health import Observation
from yaffle.model.operations import Target
from yaffle.model.policy import DetectionMode

_DETAIL_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answers of every source of one balancer about one pool."""

    place: str
    """`edge/web`"""
    noun: str
    """What the balancer calls a member."""
    sources: Sequence[tuple[str, Pool]]
    """Name of the source, and its pool or why there is none."""

    @property
    def is_no_pool(self) -> bool:
        """Whether some source says that it has no such pool, and none has."""
        codes = {pool.code for _, pool in self.sources if isinstance(pool, Failed)}
        return self.names is None and "LB-NO-POOL" in codes

    @property
    def names(self) -> frozenset[str] | None:
        """All members by name; None where no source has told."""
        told = [pool for _, pool in self.sources if not isinstance(pool, Failed)]
        return frozenset(one.name for pool in told for one in pool) if told else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Result for one node."""

    code: str
    """Row of `core.health.check_codes.OUTCOMES`."""
    detail: str
    members: frozenset[str] = frozenset()
    """What the node is called in the pool, by each source that knows it."""


def said(targets: Sequence[Target], answer: Answer) -> Sequence[Said]:
    """Return what the sources say of each node together, in order."""
    several = len(answer.sources) > 1
    by_source = [
        _of_source(targets, pool, f"{answer.place} ({name})" if several else answer.place, answer)
        for name, pool in answer.sources
    ]
    return [_together(one) for one in zip(*by_source, strict=True)]


def observed(
    target: Target,
    mode: DetectionMode,
    one: Said,
    at_us: int,
    took_us: int,
    *,
    authoritative: bool = False,
) -> Observation:
    """Return it as an observation of `target`."""
    return Observation(
        node_id=target.node_id,
        mode=mode.key,
        outcome=judge(one.code),
        code=one.code,
        detail=one_line(one.detail, _DETAIL_MAX),
        at_us=at_us,
        took_us=took_us,
        answered=OUTCOMES[one.code].answered,
        authoritative=authoritative,
    )


def _of_source(targets: Sequence[Target], pool: Pool, where: str, answer: Answer) -> Sequence[Said]:
    if isinstance(pool, Failed):
        return [Said(code=pool.code, detail=f"{where}: {pool.why}")] * len(targets)
    return [
        _of(target, found, where, answer.noun)
        for target, found in zip(targets, match(targets, pool), strict=True)
    ]


def _of(target: Target, found: Member | str, where: str, noun: str) -> Said:
    match found:
        case Member():
            return Said(
                code=found.code,
                detail=f"{where}: {noun} {found.name} is {found.words}",
                members=frozenset({found.name}),
            )
        case "LB-NO-MEMBER":
            detail = f"{where}: no {noun} is named {target.name}, or has its id or address"
            return Said(code=found, detail=detail)
        case _:
            return Said(
                code=found, detail=f"{where}: more than one {noun} or node fits {target.name}"
            )


def _together(seen: Sequence[Said]) -> Said:
    return Said(
        code=combined([one.code for one in seen]),
        detail="; ".join(one.detail for one in seen),
        members=frozenset().union(*(one.members for one in seen)),
    )
