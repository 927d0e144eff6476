"""Objects of the instance-HA API as they are shown, and the schemas of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from yaffle.api.clustering import response_schemas
from yaffle.api.clustering.response_schemas import BOOLEAN, INTEGER, MAP, MAYBE, STRING, thing
from yaffle.api.clustering.times import exact
from yaffle.model.instance_ha import MoveStatus

if TYPE_CHECKING:
    from yaffle.store.instance_ha import MoveRow, NotificationRow, SegmentHostRow, SegmentRow

Shown = dict[str, object]

_RECORD: Final = {
    "created_at": STRING,
    "updated_at": MAYBE,
    "deleted_at": {**MAYBE, "description": "Null: what is deleted is not shown any more."},
    "deleted": BOOLEAN,
}
SEGMENT: Final = thing(
    {
        "id": INTEGER,
        "uuid": STRING,
        "name": STRING,
        "service_type": STRING,
        "recovery_method": STRING,
        "description": MAYBE,
        "enabled": BOOLEAN,
        **_RECORD,
    }
)
HOST: Final = thing(
    {
        "id": INTEGER,
        "uuid": STRING,
        "name": STRING,
        "failover_segment_id": STRING,
        "failover_segment": SEGMENT,
        "type": MAYBE,
        "control_attributes": MAYBE,
        "reserved": BOOLEAN,
        "on_maintenance": BOOLEAN,
        **_RECORD,
    }
)
NOTIFICATION: Final = thing(
    {
        "id": INTEGER,
        "notification_uuid": STRING,
        "type": STRING,
        "payload": MAP,
        "generated_time": STRING,
        "source_host_uuid": STRING,
        "failover_segment_uuid": STRING,
        "status": STRING,
        "message": MAYBE,
        **_RECORD,
        "recovery_workflow_details": {"type": "array", "items": MAP},
    },
    "recovery_workflow_details",
)
MOVE: Final = thing(
    {
        "id": INTEGER,
        "uuid": STRING,
        "notification_uuid": STRING,
        "instance_uuid": STRING,
        "instance_name": STRING,
        "source_host": MAYBE,
        "dest_host": MAYBE,
        "start_time": MAYBE,
        "end_time": MAYBE,
        "type": STRING,
        "status": STRING,
        "message": MAYBE,
        **_RECORD,
    }
)
DONE: Final[Mapping[str, str]] = {
    MoveStatus.SUCCEEDED: "SUCCESS",
    MoveStatus.IGNORED: "SUCCESS",
    MoveStatus.FAILED: "FAILURE",
    MoveStatus.ONGOING: "RUNNING",
    MoveStatus.PENDING: "PENDING",
}


def one(key: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an answer with one object."""
    return response_schemas.single(key, schema)


def _record(row: SegmentRow | SegmentHostRow | NotificationRow | MoveRow) -> Shown:
    return {
        "created_at": exact(row.created_us),
        "updated_at": exact(row.updated_us),
        "deleted_at": None,
        "deleted": False,
    }


def segment(row: SegmentRow) -> Shown:
    """Return a segment as it is shown."""
    return {
        "id": row.seq,
        "uuid": row.id,
        "name": row.name,
        "service_type": row.service_type,
        "recovery_method": row.recovery_method,
        "description": row.description,
        "enabled": row.enabled,
        **_record(row),
    }


def host(row: SegmentHostRow, of: SegmentRow) -> Shown:
    """Return a host of a segment as it is shown."""
    return {
        "id": row.seq,
        "uuid": row.id,
        "name": row.name,
        "failover_segment_id": of.id,
        "failover_segment": segment(of),
        "type": row.type,
        "control_attributes": row.control_attributes,
        "reserved": row.reserved,
        "on_maintenance": row.on_maintenance,
        **_record(row),
    }


def notification(row: NotificationRow, moves: Sequence[MoveRow] | None = None) -> Shown:
    """Return a notification as it is shown; with its moves, what has been done is shown, too."""
    shown = {
        "id": row.seq,
        "notification_uuid": row.id,
        "type": row.type,
        "payload": row.payload,
        "generated_time": exact(row.generated_us),
        "source_host_uuid": row.host_id,
        "failover_segment_uuid": row.segment_id,
        "status": row.status,
        "message": row.message,
        **_record(row),
    }
    if moves is not None:
        shown["recovery_workflow_details"] = [_detail(one) for one in moves]
    return shown


def _detail(row: MoveRow) -> Shown:
    state = DONE.get(row.status, "PENDING")
    progress = 1.0 if state == "SUCCESS" else 0.0
    at_us = row.updated_us or row.created_us
    told = {"timestamp": exact(at_us), "progress": progress, "message": row.message or ""}
    return {
        "name": f"recovery of {row.instance_name} ({row.instance_id})",
        "state": state,
        "progress": progress,
        "progress_details": [told],
    }


def move(row: MoveRow) -> Shown:
    """Return the move of an instance as it is shown."""
    return {
        "id": row.seq,
        "uuid": row.id,
        "notification_uuid": row.notification_id,
        "instance_uuid": row.instance_id,
        "instance_name": row.instance_name,
        "source_host": row.source_host,
        "dest_host": row.dest_host,
        "start_time": exact(row.started_us),
        "end_time": exact(row.ended_us),
        "type": "evacuation",
        "status": row.status,
        "message": row.message,
        **_record(row),
    }
