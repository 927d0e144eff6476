"""Ties one decorated function to its slot in the manager of the moment, outside the fast path.

A wrapper keeps the source it wrote last and compares one pointer on each call. Only when another
manager rules, or the source was forgotten, does it come here.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from yaffle_health.current import carried_by, of_context, process
from yaffle_health.errors import BadOption
from yaffle_health.manager import Manager
from yaffle_health.source import FORGOTTEN, NOBODY, Source

if TYPE_CHECKING:
    import logging

# The names under which OpenStack's functions take the seed's context object.
_CONTEXT_NAMES: Final = ("context", "ctxt", "ctx")
# What is written to these is never read. The clock is a manager's usual one, so that the interpreter
# sees the same call in the fast path whether there is a manager or not.
_FOR_NOBODY: Final = Source(NOBODY, time.monotonic, component_type="", sticky=False)
_FOR_EACH_CALL: Final = Source(FORGOTTEN, time.monotonic, component_type="", sticky=False)
_EXITS: Final = (GeneratorExit, KeyboardInterrupt, SystemExit)
_ENDS: Final = (StopIteration, StopAsyncIteration)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one `healthcheck(...)` was told: which item, and which errors count as its failure."""

    name: str
    counted: tuple[type[BaseException], ...]
    ignored: tuple[type[BaseException], ...]
    component_id: str | None = None
    component_attr: str | None = None
    component_type: str = "component"
    ttl_s: float | None = None
    sticky: bool = False

    @property
    def caught(self) -> tuple[type[BaseException], ...]:
        """The classes of the wrapper's except clause: groups are looked into (`culprit`)."""
        return (*self.counted, ExceptionGroup)

    def culprit(self, error: BaseException) -> BaseException | None:
        """The error that makes the item fail, if this one does: for a group, its first such leaf."""
        if not isinstance(error, BaseExceptionGroup):
            return error if self._counts(error) else None
        leaves = error.subgroup(
            lambda each: not isinstance(each, BaseExceptionGroup) and self._counts(each)
        )
        while isinstance(leaves, BaseExceptionGroup):
            leaves = leaves.exceptions[0]
        if leaves is None and any(issubclass(kind, BaseExceptionGroup) for kind in self.counted):
            return error
        return leaves

    def _counts(self, error: BaseException) -> bool:
        if isinstance(error, _EXITS) or _is_cancellation(error) or isinstance(error, self.ignored):
            return False
        return isinstance(error, self.counted)


def _is_cancellation(error: BaseException) -> bool:
    """Somebody's wish to stop is no failure. The modules are asked only if the host has them."""
    for module, name in (
        ("asyncio.exceptions", "CancelledError"),
        ("concurrent.futures._base", "CancelledError"),
        ("greenlet", "GreenletExit"),
        ("trio", "Cancelled"),
    ):
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and isinstance(error, kind):
            return True
    return False


class Binding:
    """One function's tie to its source; `bound` is what the wrapper compares on each call."""

    __slots__ = ("_carrier", "_origin", "_refused_by", "_unbound", "bound", "rules")

    def __init__(self, rules: Rules, func: Callable[..., object] | None = None) -> None:
        self.rules = rules
        self._carrier = _carrier(func)
        # Whose arguments decide, it comes here on each call; another only if there is a manager.
        depends = self._carrier is not None or rules.component_attr is not None
        self._unbound = _FOR_EACH_CALL if depends else _FOR_NOBODY
        self.bound = self._unbound
        self._origin = _origin(func) if rules.sticky else None
        self._refused_by: Manager | None = None

    def passed(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        """Record a pass of a call with these arguments; never raises."""
        try:
            source = self.source(args, kwargs)
            if source is not None:
                source.passed_at = source.now()
        except Exception:  # noqa: BLE001  a defect here must not become one of the function that is watched
            _log().exception("a pass of the health check %r was not recorded", self.rules.name)

    def failed(
        self, error: BaseException, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> None:
        """Record an error, if it is one that counts; never raises."""
        try:
            culprit = self.rules.culprit(error)
            if culprit is None:
                return
            source = self.source(args, kwargs)
            if source is not None and isinstance(source.owner, Manager):
                source.owner.failed(source, culprit)
        except Exception:  # noqa: BLE001  the caller is to see its own error, whatever happens here
            _log().exception("a failure of the health check %r was not recorded", self.rules.name)

    def source(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Source | None:
        """The source for a call with these arguments, or None where there is no manager."""
        manager = of_context() or process.default or self._carried(args, kwargs)
        if manager is None:
            self.bound = self._unbound
            return None
        if manager is self._refused_by:
            return None
        rules = self.rules
        component = _component(rules, args)
        try:
            source = manager.source(
                rules.name,
                component,
                component_type=rules.component_type,
                ttl_s=rules.ttl_s,
                origin=self._origin,
            )
        except BadOption as error:
            # The function's caller is not to suffer for the name of a check.
            _log().error("%s; this health check is not recorded", error)
            self._refused_by = manager
            return None
        if rules.component_attr is None:
            self.bound = source
        return source

    def _carried(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Manager | None:
        if self._carrier is None:
            return None
        name, position = self._carrier
        carrier = args[position] if position < len(args) else kwargs.get(name)
        if name != "self":
            return carried_by(carrier)
        # Only what is stored on the object itself: a property might do anything.
        stored = getattr(carrier, "__dict__", {})
        return (
            carried_by(carrier)
            or carried_by(stored.get("context"))
            or carried_by(stored.get("_context"))
        )


def _log() -> logging.Logger:
    """Imported when there is something to say: a service that never hears of us need not pay."""
    import logging

    return logging.getLogger("yaffle_health")


def _carrier(func: Callable[..., object] | None) -> tuple[str, int] | None:
    """Which parameter may carry the manager: its name and its place among the positional ones."""
    code = getattr(func, "__code__", None)
    if code is None:
        return None
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for name in _CONTEXT_NAMES:
        if name in names:
            place = names.index(name)
            return name, place if place < code.co_argcount else sys.maxsize
    return ("self", 0) if names[:1] == ("self",) else None


def _origin(func: Callable[..., object] | None) -> str | None:
    if func is None:
        return "with"
    return f"{getattr(func, '__module__', '')}.{getattr(func, '__qualname__', repr(type(func)))}"


def _component(rules: Rules, args: tuple[object, ...]) -> str | None:
    if rules.component_attr is None or not args:
        return rules.component_id
    found = getattr(args[0], rules.component_attr, None)
    return rules.component_id if found is None else str(found)


def default_ignored(exceptions_given: bool) -> tuple[type[BaseException], ...]:
    """The end of an iteration is no failure, unless somebody lists it as one."""
    return () if exceptions_given else _ENDS
