"""CPU of one process per unit of work: what holds on a busy machine, where times do not."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> float:
    """User and system time of all threads of that process so far."""
    try:
        # To the nanosecond, and of all threads together once they have ended or run.
        return (
            sum(
                int((task / "schedstat").read_text().split()[0])
                for task in Path(f"/proc/{pid}/task").iterdir()
            )
            / 1e9
        )
    except (OSError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_bytes(pid: int) -> int:
    """Resident memory, shared pages included."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a stretch of work took."""

    cpu_us: float
    """Per unit."""
    rate: float
    """Units a second."""
    rss_bytes: int


class Sample:
    """From its making to `end()`; `count` says how many units were done so far."""

    def __init__(self, pid: int, count: Callable[[], int]) -> None:
        self._pid, self._count = pid, count
        self._cpu_s, self._done, self._at = cpu_s(pid), count(), time.monotonic()

    def end(self) -> Cost:
        """What it took since."""
        done = max(self._count() - self._done, 1)
        took_s = time.monotonic() - self._at
        return Cost(
            cpu_us=(cpu_s(self._pid) - self._cpu_s) / done * 1e6,
            rate=done / took_s,
            rss_bytes=rss_bytes(self._pid),
        )


def shown(name: str, cost: Cost) -> str:
    """One line of a table."""
    return (
        f"  {name:<10} {cost.cpu_us:8.1f} µs CPU a check {cost.rate:7.0f}/s "
        f"{cost.rss_bytes / 1e6:6.1f} MB"
    )


def median_us(costs: Sequence[Cost]) -> float:
    """The median of the rounds."""
    return statistics.median(cost.cpu_us for cost in costs)


def comparable(ours: Sequence[Cost], theirs: Sequence[Cost]) -> bool:
    """Whether both sides kept about the same rate: the cost falls with it."""
    rates = [statistics.median(cost.rate for cost in costs) for costs in (ours, theirs)]
    return min(rates) > 0.9 * max(rates)


def verdict(ours: Sequence[Cost], theirs: Sequence[Cost], *, met: bool) -> str:
    """`met`, `MISSED`, or that this run cannot say."""
    if not comparable(ours, theirs):
        return "not known: one side did not keep its rate, this machine is too busy"
    return "met" if met else "MISSED"
