"""LB_STATUS_POLLING: what the load balancer finds of its members is what counts (seed 1).

One request a source for all nodes of a policy. A policy names a pool, and a balancer from the
operator's settings: it cannot point Yaffle anywhere. A balancer that is silent, has no such pool, or
does not tell which member is the node leaves everything unknown; with several sources see
`core.members.combined`. What a balancer logs brings the next look forward: see `hearing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.clouds.settings import Section
from yaffle.drivers.detectors.load_balancer.answers import Said, observed, said
from yaffle.drivers.detectors.load_balancer.asking import Balancers
from yaffle.drivers.detectors.load_balancer.hearing import Hearing
from yaffle.drivers.detectors.load_balancer.settings import BalancerSettings
from yaffle.model.health import Observation
from yaffle.model.operations import Target
from yaffle.model.policy import DetectionMode
from yaffle.ports.context import DriverContext

if TYPE_CHECKING:
    from yaffle.drivers.detectors.load_balancer.answers import Answer
    from yaffle.ports import detector as ports

_MARGIN: Final = 0.9
"""Share of the deadline that a request may use: the rest is for reading its answer."""


class LoadBalancerDetector:
    """Asks HAProxy or Octavia about all nodes of a pool at once; what cannot be told is unknown."""

    type: ClassVar[str] = "LB_STATUS_POLLING"

    def __init__(self, context: DriverContext) -> None:
        section = Section("drivers.LB_STATUS_POLLING", context.settings)
        self._clock = context.clock
        balancers = BalancerSettings.read(section).balancers
        self._balancers = Balancers(balancers, context)
        self._hearing = Hearing(balancers, self._balancers, context.clock)

    def misfit(self, mode: DetectionMode) -> str:
        """Say what is missing of the policy or the settings; see `ports.Choosing`."""
        found = self._balancers.named(mode.options)
        return found if isinstance(found, str) else ""

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        """Return one observation per target, in order."""
        if not targets:
            return []
        started_s = self._clock.monotonic_s()
        ticket = self._hearing.ticket()
        named = self._balancers.named(mode.options)
        answer: Answer | None = None
        if isinstance(named, str):
            words: Sequence[Said] = [Said(code="LB-ERROR", detail=named)] * len(targets)
        else:
            answer = await self._balancers.ask(*named, deadline_s * _MARGIN)
            words = said(targets, answer)
        at_us = self._clock.now_us()
        took_us = round((self._clock.monotonic_s() - started_s) * 1_000_000)
        seen = [
            observed(target, mode, one, at_us, took_us)
            for target, one in zip(targets, words, strict=True)
        ]
        if answer is not None and not isinstance(named, str):
            balancer, pool = named
            self._hearing.polled(ticket, (balancer.name, pool), answer, seen)
        return seen

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
        """See `ports.Hearing`."""
        named = self._balancers.named(mode.options)
        place = None if isinstance(named, str) else (named[0].name, named[1])
        self._hearing.listen(watch_id, targets, mode, interval_s, sink, place)

    def ignore(self, watch_id: str) -> None:
        """See `ports.Hearing`."""
        self._hearing.ignore(watch_id)

    def forget(self, watch_id: str) -> None:
        """See `ports.Remembering`."""
        self._hearing.forget(watch_id)

    @property
    def counts(self) -> Mapping[str, int]:
        """See `ports.Eared`."""
        return self._hearing.counts

    def ears(self) -> Sequence[ports.Ear]:
        """See `ports.Eared`."""
        return self._hearing.ears()


if TYPE_CHECKING:
    _conforms: type[ports.Detector] = LoadBalancerDetector
    _chooses: type[ports.Choosing] = LoadBalancerDetector
    _hears: type[ports.Hearing] = LoadBalancerDetector
    _forgets: type[ports.Remembering] = LoadBalancerDetector
    _tells: type[ports.Eared] = LoadBalancerDetector
