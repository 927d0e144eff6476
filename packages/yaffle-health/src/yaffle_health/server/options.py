"""The options of an endpoint by name and type, for those who pass them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from yaffle_health.server.calls import Calls
from yaffle_health.server.loop import Ticker
from yaffle_health.views import Shape


class EndpointOptions(TypedDict, total=False):
    """Keyword arguments of `Endpoint`; what they mean is written there."""

    ttl_s: float
    cache_control: int | None
    cache_cap: bool
    format: Shape | str
    group: str | None
    socket_mode: int
    socket_group: str | int | None
    required: bool
    max_connections: int
    timeout_s: float
    activation: bool | str
    after_fork: Literal["close", "restart"]
    ephemeral: bool
    tickers: Sequence[Ticker]
    calls: Calls | None
    apart: bool
    silent_max_s: float
