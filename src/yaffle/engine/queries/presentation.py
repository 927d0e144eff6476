"""Presents rows to people: names beside ids, ISO 8601 times beside microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from yaffle.engine.action_inputs.recover_requests import expires_us
from yaffle.model.incident import HoldReason
from yaffle.store import rollback_detection

if TYPE_CHECKING:
    from yaffle.store.rows import ActionRow, IncidentRow, PolicyRow, StepRow

Shown = dict[str, object]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
US_MAX: Final = 253_402_300_799_999_999
"""The last microsecond of the year 9999, which ISO-8601 and `datetime` can still say."""


def iso(us: int | None) -> str | None:
    """Return `2026-11-20T03:00:00.000000Z`; None for None."""
    if us is None:
        return None
    moment = EPOCH + timedelta(microseconds=min(max(us, 0), US_MAX))
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def times(**stamps: int | None) -> Shown:
    """Return each time twice: `created_us` as it is stored and `created_at` for people."""
    shown: Shown = {}
    for name, us in stamps.items():
        shown[f"{name}_us"] = us
        shown["at" if name == "at" else f"{name}_at"] = iso(us)
    return shown


def policy(row: PolicyRow) -> Shown:
    """Return a policy without what has to be computed."""
    return {
        "id": row.id,
        "name": row.name,
        "type": row.type,
        "spec": dict(row.spec),
        "source": row.source,
        "warnings": list(row.warnings),
        **times(created=row.created_us, updated=row.updated_us),
    }


def hold(
    reason: str | None, numbers: Mapping[str, object] | None, until_us: int | None = None
) -> Shown | None:
    """Return a hold with the page that explains it; None when nothing holds."""
    if reason is None:
        return None
    return {
        "reason": reason,
        "numbers": dict(numbers or {}),
        "runbook": runbook(reason, numbers),
        **times(until=until_us),
    }


def runbook(reason: str, numbers: Mapping[str, object] | None = None) -> str:
    """Return the page about a hold reason, from the top of the repository.

    A stop that nobody gave but Yaffle itself is another story, and has a page of its own.
    """
    page = HoldReason(reason).value
    if page == HoldReason.STOPPED and numbers and numbers.get("owner") == rollback_detection.BY:
        page = "database-went-back"
    return f"docs/runbook/{page}.md"


def action(row: ActionRow) -> Shown:
    """Return an action without its inner bookkeeping."""
    return {
        "id": row.id,
        "name": row.name,
        "action": row.action,
        "cluster_id": row.cluster_id,
        "node_id": row.node_id,
        "incident_id": row.incident_id,
        "cause": row.cause,
        "status": row.status,
        "status_reason": row.status_reason,
        "by": str(row.inputs.get("by", "")),
        "outputs": dict(row.outputs),
        **times(
            created=row.created_us,
            start=row.start_us,
            end=row.end_us,
            expires=expires_us(row),
        ),
    }


def incident(row: IncidentRow) -> Shown:
    """Return an incident in short."""
    return {
        "id": row.id,
        "parent_id": row.parent_id,
        "node_id": row.node_id,
        "node": row.node_name,
        "cluster_id": row.cluster_id,
        "cluster": row.cluster_name,
        "state": row.state,
        "open": row.open_key is not None,
        "cause": row.cause,
        "reason": row.reason,
        "hold": hold(row.hold_reason, row.hold_numbers),
        "action_id": row.action_id,
        "timeline_ms": timeline(row),
        "took_ms": since(row, row.ended_us),
        **times(opened=row.opened_us, ended=row.ended_us, acknowledged=row.acknowledged_us),
        "acknowledged_by": row.acknowledged_by,
    }


def timeline(row: IncidentRow) -> dict[str, float | None]:
    """Return when each thing happened, in ms after the first failing check."""
    return {
        "failed": None if row.first_fail_us is None else 0.0,
        "detected": since(row, row.opened_us),
        "decided": since(row, row.decided_us),
        "started": since(row, row.started_us),
        "recovered": since(row, row.recovered_us),
    }


def since(row: IncidentRow, us: int | None) -> float | None:
    """Return ms from the first failing check (from the opening where a person reported it)."""
    zero = row.opened_us if row.first_fail_us is None else row.first_fail_us
    return None if us is None else round((us - zero) / 1000, 3)


def step(row: StepRow, of: IncidentRow | None) -> Shown:
    """Return one step with its place in the incident's time and how long it took."""
    took_us = None if row.ended_us is None else row.ended_us - row.intent_us
    return {
        "action_id": row.action_id,
        "seq": row.seq,
        "rung": row.rung,
        "stage": row.stage,
        "operation": row.operation,
        "operation_id": row.operation_id,
        "phase": row.phase,
        "result": row.result,
        "detail": row.detail,
        **times(at=row.intent_us, deadline=row.deadline_us),
        "at_ms": None if of is None else since(of, row.intent_us),
        "took_ms": None if took_us is None else round(took_us / 1000, 3),
    }
