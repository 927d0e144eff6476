"""Checks for a partition of the observer: asks the reference targets when no node answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog

from yaffle.core.addresses import AddressRules, refusal
from yaffle.core.planning.observer_partition import (
    MIN_TARGETS,
    Blindness,
    Sights,
    bearings,
    by_road,
    is_blind,
    rests_on,
    silence,
)
from yaffle.model.health import Health

if TYPE_CHECKING:
    from yaffle.core.health.verdict import NodeMemory
    from yaffle.engine.runtime.context import EngineContext

log = structlog.get_logger()

TIMEOUT_S = 2.0


class ObserverCheck:
    """Asks the reference targets only when the nodes' silence calls for it."""

    def __init__(self, ctx: EngineContext) -> None:
        self._ctx = ctx
        self._interval_s = 0.0
        self.sure = False
        """Whether two targets or more are silent, and not only unheard of since one of them is."""

    async def take(
        self, memories: Iterable[NodeMemory], references: tuple[str, ...], interval_s: float
    ) -> Sights:
        """Return who answered us, by any road and by those that failures rest on alone.

        `interval_s`: how often each node is asked.
        """
        known = list(memories)
        self.sure, self._interval_s = False, interval_s
        whole = self._counted(known, bearings(known, ()))
        # Where nobody answers at all the single roads add nothing.
        found = Sights(whole=whole, roads=self._by_road(known) if whole.answered else {})
        silent = [s for s in (whole, *found.roads.values()) if s.asked and not s.answered]
        if silent and references:
            found = self._with(found, await self._ask(references))
            self.sure = True
        if found.blind:
            self._tell(found)
        return found

    def _by_road(self, known: Sequence[NodeMemory]) -> Mapping[str, Blindness]:
        """Return the counts of the roads that any node's failure rests on alone."""
        sick = (m for m in known if m.health is Health.UNHEALTHY)
        suspect = frozenset[str]().union(*map(rests_on, sick))
        own = by_road(known, sorted(suspect))
        return {road: self._counted(known, seen) for road, seen in own.items()}

    def _counted(self, known: Sequence[NodeMemory], own: Blindness) -> Blindness:
        """Return who answered, the reference targets apart; one node's silence is no evidence."""
        if own.answered or not own.asked:
            return own
        if own.asked >= MIN_TARGETS:
            self.sure = True
            return own
        fell = silence(known, own.road)
        if fell is None:
            return own
        heard = self._ctx.tally.heard(fell.roads, self._ctx.clock.monotonic_s())
        given = self._ctx.tally.given_silent(fell.roads, fell.since_us, self._interval_s)
        # An answer from before proves nothing: the network may be gone since.
        wide = heard.since(fell.since_us)
        wide = replace(wide, asked=wide.asked + given, road=own.road)
        if not wide.answered:
            self.sure |= heard.silent + given >= MIN_TARGETS
        return wide if wide.asked >= MIN_TARGETS else own

    async def _ask(self, references: tuple[str, ...]) -> tuple[bool, ...]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_answers(self._ctx.rules, r)) for r in references]
        return tuple(task.result() for task in tasks)

    def _with(self, found: Sights, references: tuple[bool, ...]) -> Sights:
        """Return the same with the reference targets: any that answers disproves every blindness."""

        def beside(seen: Blindness) -> Blindness:
            if seen.answered or not seen.asked:
                return seen
            return replace(
                seen, references_asked=len(references), references_answered=sum(references)
            )

        return Sights(
            whole=beside(found.whole),
            roads={road: beside(seen) for road, seen in found.roads.items()},
        )

    def _tell(self, found: Sights) -> None:
        seen = next(s for s in (found.whole, *found.roads.values()) if is_blind(s))
        cause = "one_channel_silent" if seen.road else "no_answer_anywhere"
        self._ctx.metrics.blind.labels(cause).inc()
        log.warning("blind", asked=seen.asked, references=seen.references_asked, road=seen.road)


async def _answers(rules: AddressRules, reference: str) -> bool:
    """Whether anything at all answers at `host:port` or at the URL's host; a refusal is an answer."""
    host, port = _address(reference)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            # A policy's author must not reach through us what is denied to us (SECURITY.md).
            address = next(
                (str(a[4][0]) for a in found if refusal(rules, str(a[4][0])) is None), ""
            )
            if not address:
                return False
            _, writer = await asyncio.open_connection(address, port)
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _address(reference: str) -> tuple[str, int]:
    """Return where to connect; `host:port` and URLs alike."""
    parts = urlsplit(reference if "//" in reference else f"//{reference}")
    default = 443 if parts.scheme == "https" else 80
    return parts.hostname or "", parts.port or default
