"""The promises of `ports.HostMonitor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.ports.host_monitor import HostReport, MonitorBlind, Seen, SupportsMarks
from yaffle.testing.checks.timing import SHORT_S, bounded

if TYPE_CHECKING:
    from yaffle.ports import Clock, HostMark, HostMonitor
    from yaffle.testing.checks.timing import Hang


async def check_host_monitor(
    monitor: HostMonitor,
    *,
    clock: Clock,
    up: str,
    blinded: Hang | None = None,
    hang: Hang | None = None,
    gone: HostMark | None = None,
) -> None:
    """Look at a cluster in which host `up` is well, twice; while it says nothing; while it hangs.

    `blinded`: a block within which the cluster cannot tell; `hang`: one within which it does not answer;
    `gone`: a mark that is not set (any more), where the monitor keeps marks.
    """
    assert "{host}" in monitor.by_hand or not monitor.by_hand, "it says of which host"
    for _ in range(2):
        report = await bounded(clock, "look", lambda s: monitor.look(deadline_s=s))
        assert isinstance(report, HostReport), f"a cluster that is well is seen: {report}"
        seen = {sighting.host: sighting for sighting in report.sightings}
        assert len(seen) == len(report.sightings), "a host is named once"
        assert seen[up].seen is Seen.UP, f"{up} is well: {seen[up]}"
        for line in (*(s.why for s in report.sightings), *(f.proof for f in report.fencings)):
            assert line, "why it is taken for that is said"
            assert "\n" not in line, "and in one line"
    if gone is not None:
        assert isinstance(monitor, SupportsMarks), "whoever reports marks can remove them"
        for _ in range(2):
            said = await bounded(clock, "clear", lambda s: monitor.clear(gone, deadline_s=s))
            assert said == "", f"a mark that is gone is none that cannot be removed: {said}"
    for trouble in (blinded, hang):
        if trouble is None:
            continue
        async with trouble():
            answer = await bounded(clock, "look", lambda s: monitor.look(deadline_s=s), SHORT_S)
        assert isinstance(answer, MonitorBlind), f"what is not known is not reported: {answer}"
        assert answer.why, "why it is blind is said"
