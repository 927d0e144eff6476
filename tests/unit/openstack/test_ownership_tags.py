"""What is written on a server can be read back, and what somebody spoilt is no mark."""

from __future__ import annotations

import pytest

from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import NOTE, Mark, mark_of
from yaffle.integrations.openstack.ownership_tags import OPERATION, trace_of
from yaffle.model.ids import OperationId

ID = "6f1f9c0e-0b1c-4f0e-9d1c-3b9a6f3d2e10"


@pytest.mark.parametrize("before", ["", "req-1"])
@pytest.mark.parametrize("source", ["", "cmp1"])
def test_a_mark_is_read_as_it_was_written(before: str, source: str) -> None:
    mark = Mark(operation_id=ID, kind="REBOOT", at_us=17, before=before, source=source)
    assert mark_of(mark.written()) == mark
    assert all(len(value) <= 255 for value in mark.written().values())


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {OPERATION: ID},
        {NOTE: "REBOOT 1 - -"},
        {OPERATION: ID, NOTE: "REBOOT"},
        {OPERATION: ID, NOTE: "REBOOT soon - -"},
        {OPERATION: "", NOTE: "REBOOT 1 - -"},
    ],
)
def test_what_is_no_mark(metadata: dict[str, str]) -> None:
    assert mark_of(metadata) is None


def test_the_operation_names_the_request_in_the_clouds_logs() -> None:
    assert trace_of(OperationId(ID)) == f"req-{ID}"
    assert trace_of(OperationId("not-a-uuid")) is None
