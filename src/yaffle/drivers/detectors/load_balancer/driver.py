"""LB_STATUS_POLLING: what the load balancer finds of its members is what counts (seed 1).

One request a source for all nodes of a policy. A policy names a pool, and a balancer from the
operator's settings: it cannot point Yaffle anywhere. A balancer that is silent, has no such pool, or
does not tell which member is the node leaves everything unknown; with several sources see
`core.members.combined`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.clouds.http import HttpSession, address_rules, one_line
from yaffle.clouds.settings import Section
from yaffle.core.members import combined
from yaffle.core.outcomes import OUTCOMES, judge
from yaffle.drivers.detectors.load_balancer import haproxy
from yaffle.drivers.detectors.load_balancer.matching import match
from yaffle.drivers.detectors.load_balancer.octavia import Octavia
from yaffle.drivers.detectors.load_balancer.pool import Failed, Member, Pool
from yaffle.drivers.detectors.load_balancer.settings import (
    AnyBalancer,
    Balancer,
    BalancerSettings,
    CloudBalancer,
)
from yaffle.model.health import Observation
from yaffle.model.operations import Target
from yaffle.model.policy import DetectionMode
from yaffle.ports.context import DriverContext

if TYPE_CHECKING:
    from yaffle.ports.detector import Choosing, Detector

AT_ONCE: Final = 4
"""Requests to one balancer at once: HAProxy's stats socket takes ten."""
_MARGIN: Final = 0.9
"""Share of the deadline that a request may use: the rest is for reading its answer."""
_DETAIL_MAX: Final = 300

Question = Callable[[], Coroutine[object, object, Pool]]
Seen = tuple[str, str]
"""Code of `core.outcomes`, detail."""


class LoadBalancerDetector:
    """Asks HAProxy or Octavia about all nodes of a pool at once; what cannot be told is unknown."""

    type: ClassVar[str] = "LB_STATUS_POLLING"

    def __init__(self, context: DriverContext) -> None:
        section = Section("drivers.LB_STATUS_POLLING", context.settings)
        self._clock = context.clock
        self._balancers = BalancerSettings.read(section).balancers
        rules = address_rules(context)
        self._sessions = {
            name: HttpSession(rules, ca_file=one.ca_file)
            for name, one in self._balancers.items()
            if isinstance(one, Balancer)
        }
        self._clouds = {
            name: Octavia(one.credentials, context.clock)
            for name, one in self._balancers.items()
            if isinstance(one, CloudBalancer)
        }
        self._turns = {name: asyncio.Semaphore(AT_ONCE) for name in self._balancers}

    def misfit(self, mode: DetectionMode) -> str:
        """Say what is missing of the policy or the settings; see `ports.Choosing`."""
        found = self._named(mode.options)
        return found if isinstance(found, str) else ""

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        """Return one observation per target, in order."""
        if not targets:
            return []
        started_s = self._clock.monotonic_s()
        named = self._named(mode.options)
        if isinstance(named, str):
            seen: Sequence[Seen] = [("LB-ERROR", named)] * len(targets)
        else:
            seen = await self._look(targets, *named, deadline_s * _MARGIN)
        at_us = self._clock.now_us()
        took_us = round((self._clock.monotonic_s() - started_s) * 1_000_000)
        return [
            _observation(target, mode, one, at_us, took_us)
            for target, one in zip(targets, seen, strict=True)
        ]

    def _named(self, options: Mapping[str, object]) -> tuple[AnyBalancer, str] | str:
        """Return balancer and pool, or why they are not to be had."""
        pool, name = options.get("pool"), options.get("balancer")
        known = ", ".join(sorted(self._balancers))
        if not isinstance(pool, str) or not pool:
            return "options.pool is missing: name the pool whose members the nodes are"
        if not self._balancers:
            return (
                "there is no balancer here: the operator sets drivers.LB_STATUS_POLLING.balancers"
            )
        if name is None and len(self._balancers) > 1:
            return f"options.balancer is missing: name one of {known}"
        balancer = next(iter(self._balancers.values())) if name is None else None
        if balancer is None and isinstance(name, str):
            balancer = self._balancers.get(name)
        if balancer is None:
            return f"options.balancer: there is no {name!r} here; there is {known}"
        return balancer, pool

    async def _look(
        self, targets: Sequence[Target], balancer: AnyBalancer, pool: str, within_s: float
    ) -> Sequence[Seen]:
        """Ask every source at once, and combine what they say of each node."""
        bound_s = min(within_s, balancer.timeout_s)
        questions = self._questions(balancer, pool, bound_s)
        async with asyncio.TaskGroup() as tasks:
            asked = [
                tasks.create_task(self._ask(question, balancer.name, bound_s))
                for _, question in questions
            ]
        several = len(asked) > 1
        noun = "member" if isinstance(balancer, CloudBalancer) else "server"
        said = [
            _said(targets, task.result(), f"{balancer.name}/{pool}", name if several else "", noun)
            for task, (name, _) in zip(asked, questions, strict=True)
        ]
        return [_together(one) for one in zip(*said, strict=True)]

    def _questions(
        self, balancer: AnyBalancer, pool: str, within_s: float
    ) -> Sequence[tuple[str, Question]]:
        """Return what to ask of each source, by its name."""
        if isinstance(balancer, CloudBalancer):
            cloud = self._clouds[balancer.name]
            return [("octavia", partial(cloud.ask, pool, within_s=within_s))]
        session = self._sessions[balancer.name]
        return [
            (
                source.words,
                partial(haproxy.ask, source, balancer, pool, session, within_s=within_s),
            )
            for source in balancer.sources
        ]

    async def _ask(self, question: Question, balancer: str, within_s: float) -> Pool:
        try:
            async with asyncio.timeout(within_s), self._turns[balancer]:
                return await question()
        except TimeoutError:
            return Failed(code="LB-TIMEOUT", why=f"no answer within {within_s:.3g} s")


def _said(
    targets: Sequence[Target], pool: Pool, place: str, source: str, noun: str
) -> Sequence[Seen]:
    """Return what one source says of each node."""
    where = f"{place} ({source})" if source else place
    if isinstance(pool, Failed):
        return [(pool.code, f"{where}: {pool.why}")] * len(targets)
    return [
        _of(target, found, where, noun)
        for target, found in zip(targets, match(targets, pool), strict=True)
    ]


def _of(target: Target, found: Member | str, where: str, noun: str) -> Seen:
    match found:
        case Member():
            return found.code, f"{where}: {noun} {found.name} is {found.words}"
        case "LB-NO-MEMBER":
            detail = f"{where}: no {noun} is named {target.name}, or has its id or address"
            return found, detail
        case _:
            return found, f"{where}: more than one {noun} or node fits {target.name}"


def _together(seen: Sequence[Seen]) -> Seen:
    code = combined([one for one, _ in seen])
    return code, "; ".join(detail for _, detail in seen)


def _observation(
    target: Target, mode: DetectionMode, seen: Seen, at_us: int, took_us: int
) -> Observation:
    code, detail = seen
    return Observation(
        node_id=target.node_id,
        mode=mode.key,
        outcome=judge(code),
        code=code,
        detail=one_line(detail, _DETAIL_MAX),
        at_us=at_us,
        took_us=took_us,
        answered=OUTCOMES[code].answered,
    )


if TYPE_CHECKING:
    _conforms: type[Detector] = LoadBalancerDetector
    _chooses: type[Choosing] = LoadBalancerDetector
