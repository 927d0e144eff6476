"""Which manager a decorated function reports to, found at the moment of the call.

First the context's own (`use`), then the process's default (`set_default`), then the one that a
context object carries as `healthcheck_manager` (seed 4: "retrieve the reference to the healthcheck
manager from the nova context object"). Nothing is decided at import: services decorate their
functions long before they have a manager, and preforked workers get theirs after the fork.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Final

from yaffle_health.manager import Manager
from yaffle_health.source import NOBODY

ATTRIBUTE: Final = "healthcheck_manager"

_of_context: contextvars.ContextVar[Manager | None] = contextvars.ContextVar(
    "yaffle_health_manager", default=None
)


class _Process:
    """The default of the process, in a box whose attributes every wrapper reads.

    `sole` is the default (NOBODY while there is none) for as long as nobody in this process has ever
    called `use`, and None from then on: asking a context variable costs half of a wrapper's fast path.
    """

    __slots__ = ("contexts", "default", "sole")

    def __init__(self) -> None:
        self.default: Manager | None = None
        self.sole: object | None = NOBODY
        self.contexts = False


process: Final = _Process()
of_context: Final = _of_context.get


def set_default(manager: Manager | None) -> Manager | None:
    """Make it the manager of everything that has no nearer one; returns the one before.

    Threads do not inherit context variables, so a threaded service wants this and not `use`.
    """
    before, process.default = process.default, manager
    process.sole = None if process.contexts else (manager or NOBODY)
    return before


@contextlib.contextmanager
def use(manager: Manager) -> Iterator[Manager]:
    """Let it be the manager of this context (task, thread or greenlet) inside the `with` block."""
    process.contexts = True
    process.sole = None
    token = _of_context.set(manager)
    try:
        yield manager
    finally:
        _of_context.reset(token)


def find(context_object: object | None = None) -> Manager | None:
    """The manager for this call, or None: then nothing is recorded anywhere."""
    return _of_context.get() or process.default or carried_by(context_object)


def carried_by(context_object: object | None) -> Manager | None:
    """The manager that an object carries as `healthcheck_manager`, if it is one."""
    try:
        carried = getattr(context_object, ATTRIBUTE, None)
    except Exception:  # noqa: BLE001  a stranger's __getattr__ may raise anything; the call is not to suffer
        return None
    # A mock, or an object that invents attributes, is no manager.
    return carried if isinstance(carried, Manager) else None
