"""Proof by the cluster that a host belongs to: it was fenced there, and has not been back since."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.model.host_state import HostReport, HostSighting, Seen
from yaffle.model.operations import Proof

if TYPE_CHECKING:
    from yaffle.ports.context import DriverContext
    from yaffle.ports.host_monitor import HostMonitor


LOOK_S: Final = 10.0
KEPT_S: Final = 2.0
"""So long after it began a look is not repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedElsewhere:
    """A host was switched off by somebody else."""

    proof: Proof
    since_s: int | None
    word: bool
    """Whether that is somebody's word, and not seen now."""


class Clusters:
    """The host monitors that there are; each is asked anew, for what was off may be on by now."""

    def __init__(self, context: DriverContext) -> None:
        self._clock = context.clock
        self._monitors = context.host_monitors
        self._names = context.host_names
        self._clouds = context.host_clouds
        self._looks: dict[str, tuple[float, asyncio.Task[HostReport | str]]] = {}

    def __bool__(self) -> bool:
        """Whether anybody can be asked."""
        return bool(self._monitors)

    async def fenced(self, host: str, cloud: str, *, within_s: float) -> FencedElsewhere | str:
        """Return the proof that a host is off, or what its cluster says instead.

        `host` is the same as one of a cluster if both have one name, or the settings say so
        (`hosts.names`), and the cluster's is of the node's cloud; what is alike is not the same.
        Somebody's word is returned where no monitor has more, and none sees the host up.
        """
        said, words, up = [], [], False
        for name, monitor in self._monitors.items():
            if cloud and self._clouds.get(name, "") != cloud:
                said.append(f"host monitor {name} is not said to see hosts of cloud {cloud}")
                continue
            answer = await self._look(name, within_s / len(self._monitors))
            if isinstance(answer, str):
                said.append(f"host monitor {name} cannot tell: {answer}")
                continue
            for sighting in answer.sightings:
                if self._full(sighting.host) != self._full(host):
                    continue
                proof = self._proof(name, monitor, sighting, answer)
                if sighting.off and not sighting.busy and not sighting.word:
                    return proof
                if sighting.off and not sighting.busy:
                    words.append(proof)
                up = up or sighting.seen is Seen.UP
                said.append(f"host monitor {name}: {sighting.why}")
        # What is seen counts before what somebody said.
        return words[0] if words and not up else "; ".join(said)

    async def _look(self, name: str, within_s: float) -> HostReport | str:
        """Return what is seen; all nodes of a host wait for one look, and it outlives their patience."""
        began_s, look = self._looks.get(name, (0.0, None))
        if look is None or (look.done() and self._clock.monotonic_s() - began_s > KEPT_S):
            began_s = self._clock.monotonic_s()
            # It ends by itself within LOOK_S, and whoever waits for it has its answer.
            look = asyncio.create_task(self._ask(name))  # noqa: TID251
            self._looks[name] = began_s, look
        await asyncio.wait({look}, timeout=within_s)
        return look.result() if look.done() else "it has not answered yet"

    async def _ask(self, name: str) -> HostReport | str:
        try:
            async with asyncio.timeout(LOOK_S):
                answer = await self._monitors[name].look(deadline_s=LOOK_S)
        except Exception as error:  # noqa: BLE001 - a stranger's; what it cannot say is unknown
            return f"{type(error).__name__}: {error}"[:500]
        return answer if isinstance(answer, HostReport) else str(answer.why)

    def _proof(
        self, name: str, monitor: HostMonitor, sighting: HostSighting, report: HostReport
    ) -> FencedElsewhere:
        fencings = [f for f in report.fencings if f.host == sighting.host]
        last = max(fencings, key=lambda fencing: fencing.at_s, default=None)
        evidence = sighting.why if last is None else f"{sighting.why}; {last.proof}"
        proof = Proof(
            method=f"{monitor.type} {name}",
            evidence=evidence,
            at_us=self._clock.now_us(),
            by=f"{socket.gethostname()}/{os.getpid()}",
        )
        since_s = sighting.off_s if last is None else last.at_s
        return FencedElsewhere(proof=proof, since_s=since_s, word=sighting.word)

    def _full(self, host: str) -> str:
        return self._names.get(host, host)
