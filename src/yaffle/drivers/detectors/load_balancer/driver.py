"""LB_STATUS_POLLING: what the load balancer finds of its members is what counts (seed 1).

One request a source for all nodes of a policy. A policy names a balancer from the operator's
settings, so that it cannot point Yaffle anywhere, and a pool, or none: then see `pool_discovery`. A
balancer that is silent, has no such pool, or does not tell which member is the node leaves everything
unknown; with several sources see `core.health.lb_member_status.combined`. What a balancer logs brings
the next look forward: see `event_checks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.drivers.detectors.load_balancer.answers import Said, observed, said
from yaffle.drivers.detectors.load_balancer.balancers import Balancers
from yaffle.drivers.detectors.load_balancer.event_checks import EventChecks
from yaffle.drivers.detectors.load_balancer.pool import Failed
from yaffle.drivers.detectors.load_balancer.settings import BalancerSettings
from yaffle.integrations.driver_settings import Section
from yaffle.model.health import Observation
from yaffle.model.operations import Target
from yaffle.model.policy import DetectionMode
from yaffle.ports.context import DriverContext

if TYPE_CHECKING:
    from yaffle.drivers.detectors.load_balancer.answers import Answer
    from yaffle.ports import detector as ports

_MARGIN: Final = 0.9
"""Share of the deadline that requests may use: the rest is for reading their answers."""
_LEFT_S: Final = 0.05
_UNFOUND: Final = frozenset({"LB-NO-POOL", "LB-AMBIGUOUS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    said: Sequence[Said]
    answer: Answer | None = None
    """None where nobody was asked."""
    place: tuple[str, str] = ("", "")
    """Balancer and pool that were asked."""
    unfound: bool = False
    """Whether it is known that no pool is theirs for certain, and not only nobody could be asked."""


class LoadBalancerDetector:
    """Asks HAProxy or Octavia about all nodes of a pool at once; what cannot be told is unknown."""

    type: ClassVar[str] = "LB_STATUS_POLLING"

    def __init__(self, context: DriverContext) -> None:
        section = Section("drivers.LB_STATUS_POLLING", context.settings)
        self._clock = context.clock
        balancers = BalancerSettings.read(section).balancers
        self._balancers = Balancers(balancers, context)
        self._hearing = EventChecks(balancers, self._balancers, context.clock)

    def misfit(self, mode: DetectionMode) -> str:
        """Say what is missing of the policy or the settings; see `ports.SupportsModeValidation`."""
        found = self._balancers.named(mode.options)
        return found if isinstance(found, str) else ""

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        """Return one observation per target, in order; a node alone finds no pool of its own."""

        async def whole() -> Sequence[Target]:
            return targets if all(one.cluster_id is None for one in targets) else ()

        return await self.check_among(targets, mode, whole=whole, deadline_s=deadline_s)

    async def check_among(
        self,
        targets: Sequence[Target],
        mode: DetectionMode,
        *,
        whole: ports.Whole,
        deadline_s: float,
    ) -> Sequence[Observation]:
        """See `ports.SupportsClusterCheck`; which pool it is rests on all nodes."""
        if not targets:
            return []
        self._balancers.notice(targets)
        started_s = self._clock.monotonic_s()
        ticket = self._hearing.ticket()
        until_s = started_s + deadline_s * _MARGIN
        look = await self._look(targets, mode.options, whole, until_s)
        at_us = self._clock.now_us()
        took_us = round((self._clock.monotonic_s() - started_s) * 1_000_000)
        seen = [
            observed(target, mode, one, at_us, took_us)
            for target, one in zip(targets, look.said, strict=True)
        ]
        if look.answer is not None:
            self._hearing.polled(ticket, look.place, look.answer, seen)
        elif look.unfound:
            self._hearing.unfound(targets, mode)
        return seen

    async def _look(
        self,
        targets: Sequence[Target],
        options: Mapping[str, object],
        whole: ports.Whole,
        until_s: float,
    ) -> _Look:
        balancer = self._balancers.named(options)
        if isinstance(balancer, str):
            return _Look(said=[Said(code="LB-ERROR", detail=balancer)] * len(targets))
        if pool := _pool(options):
            answer = await self._balancers.ask(balancer, pool, self._left_s(until_s))
            return _Look(said=said(targets, answer), answer=answer, place=(balancer.name, pool))
        found = await self._balancers.find(balancer, targets, whole, self._left_s(until_s))
        if isinstance(found, Failed):
            detail = f"{balancer.name}: {found.why}"
            why = [Said(code=found.code, detail=detail)] * len(targets)
            return _Look(said=why, unfound=found.code in _UNFOUND)
        answer = await self._balancers.ask(balancer, found.pool, self._left_s(until_s))
        if answer.is_no_pool:
            self._balancers.lost(balancer, targets)
        place = f"{balancer.name}/{found.words}, found by the nodes' addresses"
        words = said(targets, replace(answer, place=place))
        return _Look(said=words, answer=answer, place=(balancer.name, found.pool))

    def _left_s(self, until_s: float) -> float:
        return max(_LEFT_S, until_s - self._clock.monotonic_s())

    # --- what is heard -------------------------------------------------------------------------

    def listen(
        self,
        watch_id: str,
        targets: Sequence[Target],
        mode: DetectionMode,
        *,
        interval_s: float,
        sink: ports.Sink,
    ) -> None:
        """See `ports.SupportsEventHints`."""
        self._balancers.notice(targets)
        named, pool = self._balancers.named(mode.options), _pool(mode.options)
        place = (named.name, pool) if pool and not isinstance(named, str) else None
        self._hearing.listen(watch_id, targets, mode, interval_s, sink, place)

    def ignore(self, watch_id: str) -> None:
        """See `ports.SupportsEventHints`."""
        self._hearing.ignore(watch_id)

    def forget(self, watch_id: str) -> None:
        """See `ports.SupportsReset`."""
        self._hearing.forget(watch_id)

    @property
    def counts(self) -> Mapping[str, int]:
        """See `ports.SupportsListenerStatus`."""
        return self._hearing.counts

    def listeners(self) -> Sequence[ports.ListenerStatus]:
        """See `ports.SupportsListenerStatus`."""
        return self._hearing.listeners()


def _pool(options: Mapping[str, object]) -> str:
    """Return the pool that a policy names; empty where it names none."""
    pool = options.get("pool")
    return pool if isinstance(pool, str) else ""


if TYPE_CHECKING:
    _conforms: type[ports.Detector] = LoadBalancerDetector
    _surveys: type[ports.SupportsClusterCheck] = LoadBalancerDetector
    _chooses: type[ports.SupportsModeValidation] = LoadBalancerDetector
    _hears: type[ports.SupportsEventHints] = LoadBalancerDetector
    _forgets: type[ports.SupportsReset] = LoadBalancerDetector
    _tells: type[ports.SupportsListenerStatus] = LoadBalancerDetector
