"""Of several answers about one act the one that tells something is kept, with the last one beside it."""

from __future__ import annotations

from yaffle.core.recovery.answer_preference import more_telling
from yaffle.drivers.profiles.nova_server.tracking.operation import of_error
from yaffle.integrations.openstack.faults import CloudUnavailable
from yaffle.model.operations import Hindrance, Progress, ProgressState

RUNNING, FAILED = ProgressState.RUNNING, ProgressState.FAILED
ACCEPTED = Progress(state=RUNNING, detail="deletion accepted (req-1)")
SILENT = of_error(CloudUnavailable("no answer within 1 s", sent=False))


def test_silence_does_not_push_out_what_was_told() -> None:
    found = more_telling(more_telling(ACCEPTED, SILENT), SILENT)
    assert found.state is RUNNING
    assert found.detail == f"deletion accepted (req-1); since then: {SILENT.detail}"
    assert found.hindrance is Hindrance.UNASKED, (
        "its end is no failure to be answered by a stronger act"
    )


def test_what_is_told_later_is_what_counts() -> None:
    deleting = Progress(state=RUNNING, detail="it is being deleted")
    assert more_telling(more_telling(ACCEPTED, SILENT), deleting) == deleting
    assert more_telling(SILENT, SILENT) == SILENT
    ended = Progress(state=FAILED, detail="its host failed")
    assert more_telling(ACCEPTED, ended) == ended


def test_only_of_this_request_it_is_said_that_it_was_not_sent() -> None:
    assert "this request was not sent" in SILENT.detail
    assert "it may have arrived" in of_error(CloudUnavailable("no answer", sent=True)).detail
