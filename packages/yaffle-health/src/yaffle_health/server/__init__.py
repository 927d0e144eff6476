"""GET /health over TCP and UNIX sockets, from one thread that the host does not notice."""

from __future__ import annotations

# Not typing's, as in the package above.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from yaffle_health.server.endpoint import Endpoint

__all__ = ["Endpoint"]


def __getattr__(name: str) -> object:
    # Imported by who listens, and not by the helper of who does (helper.py), which has no use for it.
    if name != "Endpoint":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from yaffle_health.server.endpoint import Endpoint

    globals()[name] = Endpoint
    return Endpoint
