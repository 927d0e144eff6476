"""A host monitor that sees what a test says, and is away, slow or wrong by plan."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from yaffle.model.host_state import (
    HostFencing,
    HostMark,
    HostReport,
    HostSighting,
    MonitorBlind,
    Seen,
)
from yaffle.testing.faults import Broken, Fault, FaultPlan

if TYPE_CHECKING:
    from yaffle.ports import Clock, HostMonitor, SupportsMarks, SupportsWakeUp


class ScriptedHostMonitor:
    """A cluster of hosts: `seen` is how each is, `fencings` what its fencer remembers."""

    type: ClassVar[str] = "scripted"
    by_hand: ClassVar[str] = "`scripted --fence {host}`; "

    def __init__(self, clock: Clock, plan: FaultPlan | None = None) -> None:
        self.plan = plan or FaultPlan(clock)
        self.seen: dict[str, Seen] = {}
        self.fencings: list[HostFencing] = []
        self.off: dict[str, int] = {}
        """Hosts that were fenced and have not been up since, and when (seconds since the epoch)."""
        self.marks: dict[str, HostMark] = {}
        """The marks of failed hosts: they outlive the fencer's memory, and the host's return."""
        self.words: set[str] = set()
        """Hosts of which somebody only says that they are off."""
        self.busy: set[str] = set()
        """Hosts that the cluster is fencing now."""
        self.unknown: dict[str, str] = {}
        """Hosts of which nobody can tell how they are, and why."""
        self.fault = ""
        """Why failures would not be found, though hosts are seen."""
        self.looks = 0
        self.woken = asyncio.Event()
        """Set it, and whoever watches looks at once."""
        self._clock = clock

    def fence(self, host: str, *, ago_s: float = 0.0, by: str = "switch") -> HostFencing:
        """Let a host be fenced with success, `ago_s` before now by the cluster's clock."""
        at_s = self._clock.now_us() // 1_000_000 - int(ago_s)
        done = HostFencing(host=host, at_s=at_s, proof=f"scripted: off succeeded, by {by}")
        self.fencings.append(done)
        self.off[host] = at_s
        return done

    def mark(self, host: str, *, ago_s: float = 0.0) -> HostMark:
        """Mark a host as failed, as the fence agent does that is the last to be asked."""
        at_s = self._clock.now_us() // 1_000_000 - int(ago_s)
        self.marks[host] = HostMark(host=host, name="failed", value=str(at_s), at_s=(at_s,))
        return self.marks[host]

    async def changed(self) -> None:
        """Wait until it is woken, unless the plan has it fail."""
        if (rule := self.plan.strike("changed")) is not None and rule.fault is Fault.RAISE:
            raise Broken("a monitor's bug")
        await self.woken.wait()
        self.woken.clear()

    async def clear(self, mark: HostMark, *, deadline_s: float) -> str:
        """Remove a mark that still says the same, unless the plan has it fail."""
        rule = self.plan.strike("clear")
        match rule.fault if rule is not None else None:
            case Fault.STUCK:
                await asyncio.sleep(1e9)
            case Fault.RAISE:
                raise Broken("a monitor's bug")
            case None:
                await asyncio.sleep(0.01)
                if self.marks.get(mark.host) == mark:
                    del self.marks[mark.host]
                return ""
            case _:
                return "no quorum"
        return ""

    async def look(self, *, deadline_s: float) -> HostReport | MonitorBlind:
        """Return all that is seen; how long that takes, and whether it comes, the plan says."""
        self.looks += 1
        rule = self.plan.strike("look")
        match rule.fault if rule is not None else None:
            case Fault.STUCK:
                await asyncio.sleep(1e9)
            case Fault.HANG | Fault.LATE:
                await asyncio.sleep(deadline_s * 0.9)
                return MonitorBlind(why="no answer")
            case Fault.FAIL | Fault.ERROR | Fault.LOSE:
                return MonitorBlind(why="no quorum")
            case Fault.RAISE:
                raise Broken("a monitor's bug")
            case Fault.HALF:
                return HostReport(sightings=(), fencings=())
            case Fault.LIE:
                return "all is well"  # type: ignore[return-value]
            case _:
                pass
        await asyncio.sleep(0.01)
        for host, seen in self.seen.items():
            if seen is Seen.UP:
                self.off.pop(host, None)
        return HostReport(
            sightings=tuple(
                HostSighting(
                    host=host,
                    seen=seen,
                    why=f"scripted: {seen}",
                    off=host in self.off,
                    off_s=self.off.get(host),
                    busy=host in self.busy,
                    word=host in self.words,
                )
                for host, seen in self.seen.items()
                if host not in self.unknown
            ),
            unknown=dict(self.unknown),
            fault=self.fault,
            fencings=(*self.fencings, *self._owed()),
            marks=tuple(self.marks.values()),
        )

    def _owed(self) -> list[HostFencing]:
        return [
            HostFencing(host=host, at_s=at_s, proof="scripted: marked", owed=True)
            for host, mark in self.marks.items()
            for at_s in mark.at_s
        ]


if TYPE_CHECKING:
    _conforms: type[HostMonitor] = ScriptedHostMonitor
    _keeps_marks: type[SupportsMarks] = ScriptedHostMonitor
    _wakes_up: type[SupportsWakeUp] = ScriptedHostMonitor
