"""Report of a watch: counted from what was told, beside what is watched right now."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sqlalchemy import func, select

from yaffle.cli import durations
from yaffle.cli.dry_run import report_store
from yaffle.cli.dry_run.messages import Kind, iso, stamp
from yaffle.cli.dry_run.report_store import Entry, line_of
from yaffle.model.counts import count
from yaffle.store.tables import clusters, nodes

if TYPE_CHECKING:
    from sqlalchemy import Connection

LATEST: Final = 20
"""Failures that are told one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The state of what is watched at this moment."""

    groups: Mapping[str, int]
    """Name → servers."""
    health: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """A span of watching in numbers."""

    began_us: int | None
    last_us: int | None
    runs: int
    failures: int
    """Incidents in which Yaffle would have acted, or was held back."""
    would: Mapping[str, int]
    """First operation → incidents."""
    held: Mapping[str, int]
    """Reason → incidents that Yaffle would only have looked at."""
    over: Sequence[float] = field(default_factory=tuple)
    """How long (s) each lasted that ended without Yaffle."""
    open: int
    wishes: int
    arrived: int
    gone: int
    away: int
    away_s: float
    unseen: Sequence[str] = ()
    """What could not be seen, as the last run found it."""
    latest: Sequence[Entry] = ()


def now(conn: Connection) -> Now:
    """Read what is watched."""
    groups = conn.execute(
        select(clusters.c.name, func.count(nodes.c.id))
        .join(nodes, nodes.c.cluster_id == clusters.c.id)
        .group_by(clusters.c.id, clusters.c.name)
        .order_by(clusters.c.name)
    )
    health = conn.execute(select(nodes.c.health, func.count()).group_by(nodes.c.health))
    return Now(groups={r[0]: r[1] for r in groups}, health={r[0]: r[1] for r in health})


def summed(entries: Iterable[Entry]) -> Sum:
    """Return the numbers of what was told."""
    told = list(entries)
    of: dict[Kind, list[Entry]] = {kind: [] for kind in Kind}
    for entry in told:
        of[entry.kind].append(entry)
    acted = {_incident(e): e for e in of[Kind.WOULD]}
    waited = {_incident(e): e for e in of[Kind.HELD] if _incident(e) not in acted}
    over = {_incident(e): e for e in of[Kind.OVER]}
    left = {_incident(e) for e in of[Kind.LEFT]}
    # What was let go ended, too: with its server.
    gone = {e.about.node_id for e in of[Kind.GONE] if e.about is not None}
    failures = {**waited, **acted}
    closed = over.keys() | left
    still = [i for i, e in failures.items() if i not in closed and _node(e) not in gone]
    unseen = of[Kind.BEGAN][-1].data.get("unseen") if of[Kind.BEGAN] else None
    return Sum(
        began_us=told[0].at_us if told else None,
        last_us=told[-1].at_us if told else None,
        runs=len(of[Kind.BEGAN]),
        failures=len(failures),
        would=Counter(str(e.data.get("operation")) for e in acted.values()),
        held=Counter(str(e.data.get("reason")) for e in waited.values()),
        over=[_seconds(e.data.get("lasted_s")) for i, e in over.items() if i in failures],
        open=len(still),
        wishes=len(of[Kind.WISH]),
        arrived=len(of[Kind.ARRIVED]),
        gone=len(of[Kind.GONE]),
        away=len(of[Kind.AWAY]),
        away_s=sum(_seconds(e.data.get("lasted_s")) for e in of[Kind.BACK]),
        unseen=[str(one) for one in unseen] if isinstance(unseen, list) else (),
        latest=[e for e in told if e.kind in {Kind.WOULD, Kind.HELD, Kind.OVER, Kind.LEFT}][
            -LATEST:
        ],
    )


def _incident(entry: Entry) -> str:
    return (entry.about.incident_id if entry.about else None) or f"line {entry.seq}"


def _node(entry: Entry) -> str:
    return entry.about.node_id if entry.about else ""


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def lines(cloud: str, found: Sum, here: Now) -> list[str]:
    """Return the report for people."""
    if found.began_us is None or found.last_us is None:
        return [f"cloud {cloud}: nothing has been told yet"]
    told = [
        ("watched", _span(found)),
        ("servers", f"{sum(here.groups.values())} in {_groups(here.groups)}"),
        ("health", _counts(here.health)),
        *(("unseen", one) for one in found.unseen),
        ("failures", _failures(found)),
        ("would", _counts(found.would) or "nothing: Yaffle would not have acted once"),
        ("held", _counts(found.held)),
        ("over", _over(found)),
        ("wishes", _wishes(found)),
        ("came", f"{found.arrived} servers came, {found.gone} went" if _moved(found) else ""),
        ("away", _away(found)),
    ]
    shown = [f"{word:<10}{said}" for word, said in told if said]
    story = [line_of(entry).shown(entry.at_us) for entry in found.latest]
    head = f"cloud {cloud}: nothing was changed in it; what Yaffle saw, and would have done"
    return [head, *shown, *([""] if story else []), *story]


def _span(found: Sum) -> str:
    assert found.began_us is not None  # noqa: S101 - the caller has asked
    assert found.last_us is not None  # noqa: S101
    lasted = durations.shown((found.last_us - found.began_us) / 1e6)
    runs = f", in {found.runs} runs" if found.runs > 1 else ""
    return f"since {stamp(found.began_us)}; last told {lasted} later{runs}"


def _failures(found: Sum) -> str:
    if not found.failures:
        return "none"
    return f"{found.failures}, of which {found.open} are not over"


def _over(found: Sum) -> str:
    if not found.over:
        return ""
    middle = durations.shown(statistics.median(found.over))
    longest = durations.shown(max(found.over))
    return f"{len(found.over)} without Yaffle, after {middle} at the median and {longest} at most"


def _wishes(found: Sum) -> str:
    if not found.wishes:
        return ""
    return f"{found.wishes} times somebody wanted a server to be down: no failure, nothing to heal"


def _moved(found: Sum) -> int:
    return found.arrived + found.gone


def _away(found: Sum) -> str:
    if not found.away:
        return ""
    lasted = durations.shown(found.away_s)
    return f"{found.away} times the cloud did not answer, {lasted} in all; then nothing is decided"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _groups(groups: Mapping[str, int]) -> str:
    return f"{count(len(groups), 'group')}: {_counts(groups)}"


def as_json(cloud: str, found: Sum, here: Now) -> dict[str, object]:
    """Return the report for programs."""
    return {
        "cloud": cloud,
        "since": iso(found.began_us),
        "last": iso(found.last_us),
        "runs": found.runs,
        "servers": sum(here.groups.values()),
        "groups": dict(here.groups),
        "health": dict(here.health),
        "unseen": list(found.unseen),
        "failures": found.failures,
        "open": found.open,
        "would": dict(found.would),
        "held": dict(found.held),
        "over_s": list(found.over),
        "wishes": found.wishes,
        "arrived": found.arrived,
        "gone": found.gone,
        "away": found.away,
        "away_s": found.away_s,
        "latest": [line_of(entry).as_json(entry.at_us) for entry in found.latest],
    }


def read(conn: Connection, *, since_us: int = 0) -> tuple[Sum, Now]:
    """Read the report."""
    return summed(report_store.read(conn, since_us=since_us)), now(conn)
