"""Alert drivers hand a host's failure to a recovery controller; the alerter decides when, how often."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from yaffle.model.host_failure import HostFailure
from yaffle.model.operations import Delivery

__all__ = ["AlertDriver", "HostFailure", "SupportsResolution"]


class AlertDriver(Protocol):
    """Tell one endpoint of one failure in bounded time."""

    type: ClassVar[str]

    async def send(self, failure: HostFailure, *, deadline_s: float) -> tuple[Delivery, str]:
        """Return what the controller did and one line about it.

        ACCEPTED: it has taken the failure over, or has it already. RETRY: it may take it later.
        REFUSED: as things are it will not (unknown host, bad request): tried again at the longest
        interval until it does, or until a person discards the alert.
        """
        ...


@runtime_checkable
class SupportsResolution(Protocol):
    """Optional capability: an endpoint that shows a failure until somebody has taken it over."""

    async def resolve(self, failure: HostFailure, *, deadline_s: float) -> tuple[Delivery, str]:
        """Tell that the responsible recovery controller has it now; called again until it is ACCEPTED."""
        ...
