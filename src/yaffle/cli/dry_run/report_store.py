"""Store of what a watch has told, as events: read by the report and by the next run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from yaffle.cli.dry_run.messages import ACTION, Kind, Line
from yaffle.store import events as store_events
from yaffle.store.tables import decisions, events

if TYPE_CHECKING:
    from sqlalchemy import Connection, RowMapping

PAGE: Final = 500
"""Decisions and events that are read at once; the rest waits for the next turn."""
DECISION, EVENT = "decision", "event"
"""Under which names a line keeps the place in the order of what it tells."""
_TOLD: Final = (Kind.WOULD.value, Kind.HELD.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The node that a line is about."""

    node_id: str
    node: str
    cluster_id: str
    incident_id: str | None = None
    project: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line as it was kept."""

    seq: int
    at_us: int
    kind: Kind
    text: str
    data: Mapping[str, object]
    about: About | None


def keep(conn: Connection, line: Line, at_us: int, about: About | None = None) -> None:
    """Write a line down."""
    subject = (
        store_events.Subject(otype="WATCH", oid="watch", oname="watch")
        if about is None
        else store_events.Subject(
            otype="NODE",
            oid=about.node_id,
            oname=about.node,
            node_id=about.node_id,
            cluster_id=about.cluster_id,
            incident_id=about.incident_id,
            project=about.project,
        )
    )
    store_events.append(
        conn,
        subject,
        at_us=at_us,
        action=ACTION,
        status=line.kind.value,
        reason=line.text,
        data={**line.data, "more": [list(pair) for pair in line.more]},
    )


def read(conn: Connection, *, since_us: int = 0) -> Iterator[Entry]:
    """Yield what was told, the oldest first."""
    query = (
        select(events)
        .where(events.c.action == ACTION, events.c.at_us >= since_us)
        .order_by(events.c.seq)
    )
    for row in conn.execute(query).mappings():
        yield _entry(row)


def _entry(row: RowMapping) -> Entry:
    about = None
    if row["node_id"]:
        about = About(
            node_id=row["node_id"],
            node=row["oname"],
            cluster_id=row["cluster_id"],
            incident_id=row["incident_id"],
            project=row["project"],
        )
    return Entry(
        seq=row["seq"],
        at_us=row["at_us"],
        kind=Kind(row["status"]),
        text=row["reason"],
        data=row["data"] if isinstance(row["data"], dict) else {},
        about=about,
    )


def line_of(entry: Entry) -> Line:
    """Return the line that was kept."""
    more = entry.data.get("more")
    pairs = [tuple(map(str, pair)) for pair in more] if isinstance(more, list) else []
    return Line(
        kind=entry.kind,
        text=entry.text,
        more=tuple((pair[0], pair[1]) for pair in pairs if len(pair) == 2),
        data={k: v for k, v in entry.data.items() if k != "more"},
    )


@dataclass(slots=True, kw_only=True)
class Told:
    """The progress of the report, and what need not be told again."""

    decision: int = 0
    event: int = 0
    reasons: set[tuple[str, str]]
    """Incident and reason of what was told of incidents that may be open."""
    wishes: dict[str, str]
    """Node → why it is as somebody wanted it."""

    def copied(self) -> Told:
        """Return the same, to go back to."""
        return replace(self, reasons=set(self.reasons), wishes=dict(self.wishes))

    @classmethod
    def before(cls, conn: Connection) -> Told:
        """Return what earlier runs have told; in the first one, what is older than it is not told."""
        found = cls(reasons=set(), wishes={}, event=store_events.newest(conn))
        told = list(read(conn))
        if told:
            found.event = 0
        for entry in told:
            found.event = max(found.event, _number(entry.data.get(EVENT)))
            found.decision = max(found.decision, _number(entry.data.get(DECISION)))
            if entry.about is None:
                continue
            ident, node = entry.about.incident_id, entry.about.node_id
            if entry.kind.value in _TOLD and ident:
                found.reasons.add((ident, str(entry.data.get("reason", Kind.WOULD.value))))
            if entry.kind in {Kind.OVER, Kind.LEFT}:
                found.reasons = {key for key in found.reasons if key[0] != ident}
            if entry.kind is Kind.WISH:
                found.wishes[node] = str(entry.data.get("wish", ""))
            elif entry.kind is not Kind.LEFT:
                found.wishes.pop(node, None)
        return found


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def decided(conn: Connection, after: int) -> Sequence[RowMapping]:
    """Return decisions in their order."""
    query = select(decisions).where(decisions.c.seq > after).order_by(decisions.c.seq).limit(PAGE)
    return conn.execute(query).mappings().all()


def ended(conn: Connection, after: int) -> Sequence[RowMapping]:
    """Return the events of incidents that ended, in their order."""
    query = (
        select(events)
        .where(
            events.c.seq > after,
            events.c.action == "INCIDENT",
            events.c.status.in_(("already-healthy", "superseded", "recovered")),
        )
        .order_by(events.c.seq)
        .limit(PAGE)
    )
    return conn.execute(query).mappings().all()
