"""Counts the watched nodes of each suspected host, and asks the backend how the host is.

A mode of the policy may ask for hosts all the time; where none does, the profile is asked now, once
for each host and while something seems to be wrong with it, since the same silence may be a host's
end or a cable's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.core.planning.host_attribution import Count, Spoken, Word, count, fails_with_its_host
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.model.operations import HostReading
from yaffle.ports import SupportsHostStatus

if TYPE_CHECKING:
    from yaffle.engine.detection.cluster_snapshot import ClusterSnapshot
    from yaffle.engine.detection.health_tracker import HealthTracker
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.ids import ClusterId
    from yaffle.model.operations import Target

log = structlog.get_logger()

ASK_S: Final = 4.0
KEPT_US: Final = 10_000_000
"""How long the backend's word of a host is good: a thousand clusters need not all ask for it."""


class HostAttribution:
    """Knowledge of one watch about the machines under its unhealthy nodes."""

    def __init__(self, ctx: EngineContext, cluster_id: ClusterId) -> None:
        self._ctx = ctx
        self._cluster_id = cluster_id

    async def take(self, snapshot: ClusterSnapshot, beliefs: HealthTracker) -> Mapping[str, Count]:
        """Return what is counted of every host on which a node of this cluster is unhealthy."""
        found = {name: self._count(name) for name in beliefs.hosts_of(beliefs.sick)}
        unsaid = [
            name
            for name, seen in found.items()
            if seen.word is Word.NOTHING and seen.sick + seen.suspect and not self._fresh(name)
        ]
        if unsaid:
            await self._ask(unsaid, snapshot, beliefs)
            found |= {name: self._count(name) for name in unsaid}
        return found

    def _count(self, name: str) -> Count:
        tally = self._ctx.tally
        said = tally.words.get(name)
        return count(tally.on_host(name, self._cluster_id), said if self._fresh(name) else None)

    def _fresh(self, name: str) -> bool:
        said = self._ctx.tally.words.get(name)
        return said is not None and 0 <= self._ctx.clock.now_us() - said.at_us < KEPT_US

    async def _ask(
        self, names: Sequence[str], snapshot: ClusterSnapshot, beliefs: HealthTracker
    ) -> None:
        """Have the profiles say how these hosts are, by one failing node on each."""
        for kind, targets in self._witnesses(names, snapshot, beliefs).items():
            driver: object = self._ctx.drivers.profiles.get(kind)
            if isinstance(driver, SupportsHostStatus):
                said = await self._say(driver, list(targets.values()))
                self._ctx.tally.hear_of_hosts(dict(zip(targets, said, strict=True)))

    def _witnesses(
        self, names: Sequence[str], snapshot: ClusterSnapshot, beliefs: HealthTracker
    ) -> Mapping[str, Mapping[str, Target]]:
        """Return a target on each host, by the kind of profile that has to be asked."""
        found: dict[str, dict[str, Target]] = {}
        for name in names:
            idents = sorted(beliefs.hosts[name] & beliefs.sick & snapshot.targets.keys())
            failing = (i for i in idents if fails_with_its_host(beliefs.memories[i]))
            ident = next(failing, None)
            if ident is not None:
                target = snapshot.targets[ident]
                found.setdefault(target.profile_type, {})[name] = target
        return found

    async def _say(self, driver: SupportsHostStatus, targets: Sequence[Target]) -> Sequence[Spoken]:
        """Return one word per target; a backend that does not answer has said nothing."""
        answer = await call_driver(
            lambda: driver.hosts(targets, deadline_s=ASK_S),
            Sequence,  # type: ignore[type-abstract]
            within_s=ASK_S + 1.0,
            what="the question for hosts",
        )
        now_us = self._ctx.clock.now_us()
        said = () if isinstance(answer, Failure) or len(answer) != len(targets) else answer
        words = [_word(reading, target) for reading, target in zip(said, targets, strict=False)]
        words += [Word.NOTHING] * (len(targets) - len(words))
        return [Spoken(word=word, at_us=now_us) for word in words]


def _word(reading: object, target: Target) -> Word:
    """Return what was said of the host that we take the node to be on, and of no other."""
    if not isinstance(reading, HostReading) or reading.name != target.attributes.get("host"):
        return Word.NOTHING
    return {True: Word.UP, False: Word.LOST}.get(reading.up, Word.NOTHING)  # type: ignore[arg-type]
