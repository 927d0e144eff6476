"""Asks the engine of this installation for its facts, in whichever process it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from yaffle.api.diagnostics.report import Check
    from yaffle.engine.explain.answer import LastWord
    from yaffle.model.ids import NodeId


class EngineFacts(Protocol):
    """Facts that are in no row: how engine and prober are, what was heard last, what was counted.

    What is awaited is answered within seconds or raises EngineUnavailable.
    """

    def vital(self) -> Iterable[Check]:
        """Return what a probe that comes every second wants to know; waits for nobody."""
        ...

    async def checks(self, causes: Sequence[Check]) -> Sequence[Check]:
        """Return the doctor's rows of it; `causes` are what may have ended its session."""
        ...

    async def unseen(self) -> Sequence[str] | None:
        """Return the ids of watched nodes without an observation; None where only rows know them."""
        ...

    async def last_words(self, node_id: NodeId) -> Mapping[str, LastWord] | None:
        """Return each detection mode's last word on a node by mode; None where it is not watched."""
        ...

    async def metrics(self) -> bytes:
        """Return what it has counted, as Prometheus text."""
        ...
