"""Diagnoses the database's facts: one check for each thing that healing depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from yaffle.api.diagnostics.report import Check, Status, judged
from yaffle.model.counts import count
from yaffle.model.incident import PauseKind

if TYPE_CHECKING:
    from yaffle.store.installation_facts import Facts

NAMES_MAX: Final = 10
PENDING_S: Final = 60.0
READY_S: Final = 10.0


def checks_of(facts: Facts) -> Iterator[Check]:
    """Yield a verdict on each fact."""
    yield judged(
        "watching",
        bool(facts.unwatched),
        f"{count(facts.clusters, 'cluster')}, {count(facts.nodes, 'node')}"
        + (f"; nobody watches{listed(facts.unwatched)}" if facts.unwatched else ", all watched"),
        "A new cluster is taken within a second or two; if it stays so, no engine is acting.",
    )
    yield judged(
        "policies",
        bool(facts.unprotected),
        f"{count(len(facts.unprotected), 'cluster')} without a health policy in force"
        f"{listed(facts.unprotected)}",
        "Nothing is detected there: `yaffle cluster attach CLUSTER POLICY`.",
    )
    yield from _of_deliveries(facts)
    late_of = count(facts.lookouts, "deleted node")
    late = f"; late ones of {late_of} are looked for" if facts.lookouts else ""
    yield judged(
        "orphans",
        facts.debris > 0,
        f"old resources still being deleted: {facts.debris}{late}",
        "It is tried for ever; see the log for what is in the way.",
    )
    spent = [f"{name} (incident {ident[:8]})" if ident else name for name, ident in facts.exhausted]
    yield judged(
        "needs a human",
        bool(spent),
        f"{count(len(spent), 'node')} whose recoveries are used up{listed(spent)}",
        "They are left alone: find the cause, then `yaffle incident ack ID`, or"
        " `yaffle node recover NODE`.",
    )
    yield judged(
        "trusts",
        bool(facts.left_trusts),
        f"{len(facts.left_trusts)} in whose place there are newer ones are still valid"
        f"{listed(facts.left_trusts)}",
        "`yaffle credential list` says why. It is tried again when their users change something;"
        " they themselves can do it: `openstack trust delete ID`.",
    )
    barred = [f"{reason} (incident {ident[:8]})" for reason, ident in facts.quarantined]
    yield judged(
        "hosts",
        bool(barred),
        f"{count(len(barred), 'host')} in quarantine{listed(barred)}",
        "Guests of servers that were moved away may run there; see `yaffle explain host-quarantined`.",
    )
    yield from _of_pauses(facts)


def _of_deliveries(facts: Facts) -> Iterator[Check]:
    """What waits to be taken up, or to be accepted."""
    yield judged(
        "actions",
        facts.ready_age_s > READY_S,
        f"the oldest waits {facts.ready_age_s:.1f} s to be taken up",
        "All workers are busy (engine.workers), or no engine is acting.",
    )
    yield judged(
        "notifications",
        facts.pending_age_s > PENDING_S or facts.parked > 0,
        f"the oldest waits {facts.pending_age_s:.1f} s; {facts.parked} parked",
        "See `yaffle outbox list`; mend the receiver, then `yaffle outbox redeliver`.",
    )
    if facts.alert_age_s or facts.alerts_refused:
        yield judged(
            "alerts",
            facts.alert_age_s > PENDING_S or facts.alerts_refused > 0,
            f"the oldest alert of a failed host waits {facts.alert_age_s:.1f} s;"
            f" {facts.alerts_refused} refused",
            "See `yaffle alert list`; each is offered again until it is accepted.",
        )


def _of_pauses(facts: Facts) -> Iterator[Check]:
    stops = [p for p in facts.pauses if p.kind is PauseKind.STOP]
    detail = "; ".join(f"{p.owner}: {p.reason}" for p in stops[:NAMES_MAX])
    yield judged(
        "healing",
        bool(stops),
        f"stopped by {detail}" if stops else "allowed",
        "Nothing is healed: first do what the reason asks for, then `yaffle stop --lift`.",
    )
    planned = len(facts.pauses) - len(stops)
    yield Check(name="maintenance", status=Status.OK, detail=f"{planned} in force")


def listed(names: Sequence[str]) -> str:
    """Return `: a, b`, the first few; empty without any."""
    if not names:
        return ""
    more = ", …" if len(names) > NAMES_MAX else ""
    return f": {', '.join(names[:NAMES_MAX])}{more}"
