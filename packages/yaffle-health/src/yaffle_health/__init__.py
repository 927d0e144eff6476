"""Every process can say how it is: items in memory, a decorator, and /health over TCP and UNIX."""

from __future__ import annotations

# Not typing's: importing that would cost more than everything else here. Type checkers know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from yaffle_health.current import find, set_default, use
    from yaffle_health.decorator import healthcheck
    from yaffle_health.endpoint import serve
    from yaffle_health.errors import BadOption, BadUri, BindFailed, HealthError, UnknownGroup
    from yaffle_health.escalation import Connection
    from yaffle_health.lag import LoopLag, ThreadLag
    from yaffle_health.manager import Manager
    from yaffle_health.model import Check, Health, Service, Status
    from yaffle_health.server import Endpoint
    from yaffle_health.sighup import reset_on_sighup

# Where each name lives: it is imported when it is first asked for (PEP 562).
_HOMES = {
    "BadOption": "errors",
    "BadUri": "errors",
    "BindFailed": "errors",
    "Check": "model",
    "Connection": "escalation",
    "Endpoint": "server",
    "Health": "model",
    "HealthError": "errors",
    "LoopLag": "lag",
    "Manager": "manager",
    "Service": "model",
    "Status": "model",
    "ThreadLag": "lag",
    "UnknownGroup": "errors",
    "find": "current",
    "healthcheck": "decorator",
    "reset_on_sighup": "sighup",
    "serve": "endpoint",
    "set_default": "current",
    "use": "current",
}

__all__ = [
    "Manager",
    "healthcheck",
    "serve",
    "Endpoint",
    "Connection",
    "LoopLag",
    "ThreadLag",
    "reset_on_sighup",
    "Check",
    "Health",
    "Service",
    "Status",
    "HealthError",
    "BadOption",
    "BadUri",
    "BindFailed",
    "UnknownGroup",
    "find",
    "set_default",
    "use",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found: object = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
