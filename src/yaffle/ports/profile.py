"""Profiles build, read, change and delete nodes: bounded calls only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from yaffle.model.ids import OperationId
from yaffle.model.operations import Operation, OperationSpec, Progress, Promise, Reading, Target


class Profile(Protocol):
    """One kind of node. An operation of ten minutes is a submit and many polls."""

    type: ClassVar[str]
    """Name and version: `yaffle.local.process-1.0`."""
    promises: ClassVar[frozenset[Promise]]
    operations: ClassVar[Mapping[str, OperationSpec]]
    """Everything that `submit` accepts, CREATE and DELETE included, with parameter schemas."""

    def validate(self, spec: Mapping[str, object]) -> Mapping[str, object]:
        """Return the properties with defaults filled in; raise InvalidSpec naming every fault."""
        ...

    async def read(self, targets: Sequence[Target], *, deadline_s: float) -> Sequence[Reading]:
        """Say how each target is, in order, without changing anything."""
        ...

    async def submit(
        self, op: Operation, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Start the operation and leave `operation_id` on the target; return without waiting.

        The same id submitted again acts once, if the profile promises DEDUPLICATES. CREATE refuses
        (FAILED) while an older copy of the node may still run. DELETE of what is not there is DONE.
        """
        ...

    async def poll(
        self, op: Operation, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Read from the target how far that operation is; ABSENT when it bears no trace of it.

        Works in a process that never saw the submit: this is how a successor reconciles. A driver
        whose operation has several phases moves it along here.
        """
        ...

    async def capture(self, target: Target, *, deadline_s: float) -> str:
        """Return evidence of the failure (console log, last lines), at most 64 KiB; may be empty."""
        ...
