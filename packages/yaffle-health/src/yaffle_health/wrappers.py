"""One wrapper for each kind of callable, so that an item passes when the body ends, not when it begins.

A plain wrapper around `async def` or a generator sees a coroutine come back and would call that a
success. Each wrapper here is of the kind it wraps: `inspect` and every framework see no difference.

The fast path is written out in each: a function call more would cost half of what it may cost.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any

from yaffle_health.binding import Binding
from yaffle_health.current import of_context, process

Wrapped = Callable[..., Any]


def wrap(func: Wrapped, binding: Binding) -> Wrapped:
    """Wrap a callable of any kind."""
    if inspect.isasyncgenfunction(func):
        return async_generator(func, binding)
    if inspect.iscoroutinefunction(func):
        return coroutine(func, binding)
    if inspect.isgeneratorfunction(func):
        wrapped = generator(func, binding)
        if inspect.unwrap(func).__code__.co_flags & inspect.CO_ITERABLE_COROUTINE:
            return types.coroutine(wrapped)
        return wrapped
    if inspect.iscoroutinefunction(getattr(func, "__call__", None)):  # noqa: B004  which kind, not whether
        return coroutine(func, binding)
    return plain(func, binding)


def plain(func: Wrapped, binding: Binding) -> Wrapped:
    """For functions and methods: passes when it returns."""
    caught = binding.rules.caught

    @functools.wraps(func)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            result = func(*args, **kwargs)
        except caught as error:
            binding.failed(error, args, kwargs)
            raise
        source = binding.bound
        if source.owner is process.sole or source.owner is (of_context() or process.default):
            source.passed_at = source.now()
        else:
            binding.passed(args, kwargs)
        return result

    return checked


def coroutine(func: Callable[..., Awaitable[Any]], binding: Binding) -> Wrapped:
    """For `async def`: passes when the awaited body returns."""
    caught = binding.rules.caught

    @functools.wraps(func)
    async def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            result = await func(*args, **kwargs)
        except caught as error:
            binding.failed(error, args, kwargs)
            raise
        source = binding.bound
        if source.owner is process.sole or source.owner is (of_context() or process.default):
            source.passed_at = source.now()
        else:
            binding.passed(args, kwargs)
        return result

    return checked


def generator(func: Callable[..., Generator[Any, Any, Any]], binding: Binding) -> Wrapped:
    """For generators: passes when the body runs to its end; one closed early says nothing."""
    caught = binding.rules.caught

    @functools.wraps(func)
    def checked(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        try:
            result = yield from func(*args, **kwargs)
        except caught as error:
            binding.failed(error, args, kwargs)
            raise
        source = binding.bound
        if source.owner is process.sole or source.owner is (of_context() or process.default):
            source.passed_at = source.now()
        else:
            binding.passed(args, kwargs)
        return result

    return checked


def async_generator(func: Callable[..., AsyncGenerator[Any, Any]], binding: Binding) -> Wrapped:
    """For async generators: as for generators. What is sent and thrown in reaches the body."""
    caught = binding.rules.caught

    @functools.wraps(func)
    async def checked(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = func(*args, **kwargs)
        try:
            step = inner.asend(None)
            while True:
                try:
                    value = await step
                except StopAsyncIteration:
                    break
                try:
                    sent = yield value
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as thrown:  # noqa: BLE001  the body decides what becomes of it
                    step = inner.athrow(thrown)
                else:
                    step = inner.asend(sent)
        except caught as error:
            binding.failed(error, args, kwargs)
            raise
        binding.passed(args, kwargs)

    return checked
