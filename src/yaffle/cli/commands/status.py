"""`yaffle status`: everything at a glance, the worst first in the eye."""

from __future__ import annotations

from yaffle.cli.client.native import Api, Row, inner, items, rows
from yaffle.cli.commands.clusters import health_counts, hold_counts
from yaffle.cli.commands.nodes import NODE_COLUMNS, needs_human
from yaffle.cli.output import Output, clock_time, short


def status(api: Api, output: Output) -> None:
    """Show clusters, nodes that are not well, open incidents, and whether healing is stopped."""
    about, stop = api.get(), api.get("stop")
    clusters = rows(api.get("clusters"), "clusters")
    # Those of which there is nothing to say are only counted.
    answer = api.get("nodes", attention="true")
    told, total = rows(answer, "nodes"), answer.get("total")
    open_now = rows(api.get("incidents", open="true", limit=1000), "incidents")
    pauses = rows(api.get("maintenance"), "maintenance")
    waiting = [
        {**row, "cancel": f"yaffle action cancel {short(row.get('id'))}"}
        for row in rows(api.get("actions", waiting="true", limit=1000), "actions")
    ]
    attention = [
        n
        for n in told
        if n.get("health") != "healthy" or n.get("status") != "ACTIVE" or needs_human(n)
    ]
    data = {
        "server": {"url": api.url, **about},
        "stopped": stop.get("stopped"),
        "maintenance": pauses,
        "clusters": clusters,
        "nodes": {"total": total, "attention": attention},
        "open_incidents": open_now,
        "waiting_requests": waiting,
    }
    stops = [row for row in items(stop, "stops") if row.get("in_force")]
    output.facts(
        data,
        [
            ("server", f"{api.url} (yaffle {about.get('version')})"),
            ("stopped", "; ".join(f"by {s.get('owner')}: {s.get('reason')}" for s in stops)),
            ("maintenance", f"{len(pauses)} in force" if pauses else None),
            *(
                (
                    f"cluster {c.get('name')}",
                    f"{c.get('status')}: {health_counts(c) or 'no nodes'}"
                    + (f"; held: {hold_counts(c)}" if inner(c, "holds") else ""),
                )
                for c in clusters
            ),
            ("nodes", total),
            ("open incidents", _open(len(open_now), sum(bool(needs_human(n)) for n in attention))),
            *((f"recovery of {row.get('node')} waits", _waits(row)) for row in waiting),
            *(
                (f"{n.get('name')} needs a human", needs_human(n))
                for n in attention
                if needs_human(n)
            ),
        ],
    )
    if not output.as_json and attention:
        print()
        output.table(data, attention, NODE_COLUMNS, empty="")


def _open(going_on: int, given_up: int) -> str:
    """Return how many go on; one that was given up has ended, and its node waits for a person."""
    if not given_up:
        return str(going_on)
    return f"{going_on}; {given_up} more {'node needs' if given_up == 1 else 'nodes need'} a human"


def _waits(request: Row) -> str:
    """Return `held: stopped, requested by ann; ends at …; take it back: yaffle action cancel …`."""
    why = request.get("status_reason") or "not begun yet"
    until = clock_time(request.get("expires_us")).partition(".")[0]
    return (
        f"{why}, requested by {request.get('by') or 'somebody'}; ends at {until};"
        f" take it back: {request['cancel']}"
    )
