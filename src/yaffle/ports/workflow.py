"""Workflows are recovery actions that somebody else carries out: a program, an HTTP service, Mistral."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from yaffle.model.ids import OperationId
from yaffle.model.operations import Progress, Promise, Target


class Workflow(Protocol):
    """Bounded in time and output; secrets never in argv."""

    type: ClassVar[str]
    """The action's `type` in policy documents: COMMAND, HTTP, MISTRAL_WORKFLOW."""
    promises: ClassVar[frozenset[Promise]]

    def validate(self, name: str, params: Mapping[str, object]) -> None:
        """Raise InvalidSpec naming every fault in `params`."""
        ...

    def in_place(self, name: str) -> bool:
        """Whether the operator declared that workflow unable to start a second copy of a node.

        Asked of the driver's own configuration, never of a policy: whoever may write a policy must
        not be able to switch fencing off. False for names that the driver does not know.
        """
        ...

    async def submit(
        self,
        name: str,
        params: Mapping[str, object],
        target: Target,
        *,
        operation_id: OperationId,
        timeout_s: float,
        deadline_s: float,
    ) -> Progress:
        """Start it; `params` have their templates filled in. `timeout_s` bounds the whole workflow."""
        ...

    async def poll(
        self, name: str, target: Target, *, operation_id: OperationId, deadline_s: float
    ) -> Progress:
        """Return how far it is; ABSENT when nobody knows that operation id."""
        ...
