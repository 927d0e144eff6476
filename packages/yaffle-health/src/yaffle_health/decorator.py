"""`@healthcheck("database", [SQLAlchemyError])`: what a function's outcome says about its service.

    @healthcheck("database", [SQLAlchemyError])
    def load(self, key): ...

    with healthcheck("database", [SQLAlchemyError]):
        ...

An error that is listed makes the item fail, a return makes it pass, everything else says nothing:
errors not listed, cancellation, exits. Every error goes on to the caller, the same object.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable
from typing import Any, Self, TypeVar, cast

from yaffle_health.binding import Binding, Rules, default_ignored
from yaffle_health.options import printable, seconds
from yaffle_health.wrappers import wrap

F = TypeVar("F")
Errors = type[BaseException] | Iterable[type[BaseException]]


class healthcheck:  # noqa: N801  read as a decorator, named by the seed
    """A decorator for callables of every kind, and a context manager (plain or async) as well.

    `exceptions`: which errors are failures; without it every Exception but the end of an iteration.
    `ignore`: errors that say nothing although they would count. `component_id`, or `component_attr`
    (the attribute of `self` that holds it at the time of the call), tells items of one name apart.
    `sticky`: a failure of this function stays until this function passes or the item is stale,
    whatever others of the same name report.
    """

    __slots__ = ("_binding", "_rules")

    def __init__(
        self,
        name: str,
        exceptions: Errors | None = None,
        *,
        ignore: Errors = (),
        component_id: str | None = None,
        component_attr: str | None = None,
        component_type: str = "component",
        ttl_s: float | None = None,
        sticky: bool = False,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(
                f"healthcheck needs the item's name first: @healthcheck('database'), not {name!r}"
            )
        given = exceptions is not None
        self._rules = Rules(
            name=printable("name", name),
            counted=_classes("exceptions", cast("Errors", exceptions)) if given else (Exception,),
            ignored=_classes("ignore", ignore) + default_ignored(given),
            component_id=component_id,
            component_attr=component_attr,
            component_type=component_type,
            ttl_s=None if ttl_s is None else seconds("ttl", ttl_s),
            sticky=sticky,
        )
        self._binding = Binding(self._rules)

    def __call__(self, func: F) -> F:
        """Wrap it; TypeError, with what to do instead, for what cannot be wrapped."""
        return cast("F", self._wrapped(func))

    def _wrapped(self, func: Any) -> Any:
        if isinstance(func, classmethod | staticmethod):
            return type(func)(self._wrapped(func.__func__))
        if isinstance(func, property | functools.cached_property):
            kind = type(func).__name__
            raise TypeError(f"healthcheck cannot wrap a {kind}: put @{kind} above @healthcheck")
        if isinstance(func, type):
            raise TypeError(
                f"healthcheck cannot wrap the class {func.__name__}: decorate its methods"
            )
        if not callable(func):
            raise TypeError(f"healthcheck cannot wrap {func!r}: it is not callable")
        return wrap(func, Binding(self._rules, func))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        if error is None:
            self._binding.passed((), {})
        elif isinstance(error, self._rules.caught):
            self._binding.failed(error, (), {})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, traceback)


def _classes(option: str, given: Errors) -> tuple[type[BaseException], ...]:
    classes = (given,) if isinstance(given, type) else tuple(given)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise TypeError(f"healthcheck({option}=...) takes exception classes, not {each!r}")
    return classes
