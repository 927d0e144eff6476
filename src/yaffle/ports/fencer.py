"""Fencers make sure that the old copy cannot act, and prove it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar, Protocol, runtime_checkable

from yaffle.model.ids import OperationId
from yaffle.model.operations import FenceResult, Promise, Target


class Fencer(Protocol):
    """Fencing is idempotent: what is already dead is confirmed again."""

    type: ClassVar[str]
    """COMPUTE or HOST."""
    promises: ClassVar[frozenset[Promise]]

    def supports(self, target: Target) -> bool:
        """Whether this fencer knows how to fence such a node."""
        ...

    async def fence(
        self, target: Target, *, operation_id: OperationId, deadline_s: float
    ) -> FenceResult:
        """Kill and prove. "Cannot tell" is UNKNOWN, never confirmed."""
        ...


@runtime_checkable
class NeedsSettings(Protocol):
    """Optional capability of a fencer: it can do nothing until an operator has set it up."""

    def lacking(self) -> str:
        """Say what is missing, as a sentence that follows its name; empty when nothing is."""
        ...


@runtime_checkable
class SupportsFenceExclusion(Protocol):
    """Optional capability of a fencer: its way of fencing would defeat some acts."""

    def defeats(self, act: str) -> str:
        """Say, as a sentence, why it must not be used before that act of the ladder; else ""."""
        ...


@runtime_checkable
class SupportsHostFence(Protocol):
    """Optional capability of a fencer: it fences a host as such, whatever runs on it."""

    def device_of(self, host: str) -> str:
        """Return the address of the device that switches a host, empty where none does."""
        ...

    async def fence_host(self, host: str, *, deadline_s: float) -> FenceResult:
        """Switch off and prove, as `fence`; the caller knows that nobody hears of the host."""
        ...


@runtime_checkable
class SupportsDeviceCheck(Protocol):
    """Optional capability of a fencer: it can tell which of its devices would fail it."""

    async def device_faults(
        self, *, leave: Collection[str], deadline_s: float
    ) -> Mapping[str, str | None]:
        """Return, for each host, why its device does not tell its power; empty where it does.

        Nothing is switched. None where it was not asked: for lack of time, or because the device is of a
        host in `leave`, which is being fenced: two questions at once make some devices fail.
        """
        ...
