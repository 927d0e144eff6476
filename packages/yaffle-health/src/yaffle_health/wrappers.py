"""One wrapper for each kind of callable, so that an item passes when the body ends, not when it begins.

A plain wrapper around `async def` or a generator sees a coroutine come back and would call that a
success. Each wrapper here is of the kind it wraps: `inspect` and every framework see no difference.

The fast path is written out in each: a function call more would cost half of what it may cost. There,
`now = source.now` is for the interpreter, which speeds up reading a slot but not calling one.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any

from yaffle_health.binding import Binding
from yaffle_health.current import of_context, process

Wrapped = Callable[..., Any]


def wrap(func: Any, binding: Binding) -> Wrapped:
    """Wrap a callable of any kind; for an object its `__call__` says of which kind it is."""
    known = inspect.isroutine(func) or isinstance(func, functools.partial)
    body: Wrapped = func if known else func.__call__
    if inspect.isasyncgenfunction(body):
        return async_generator(func, binding)
    if inspect.iscoroutinefunction(body):
        return coroutine(func, binding)
    if inspect.isgeneratorfunction(body):
        wrapped = generator(func, binding)
        return types.coroutine(wrapped) if _is_awaitable_generator(body) else wrapped
    return plain(func, binding)


def _is_awaitable_generator(func: Wrapped) -> bool:
    """Whether it was made by `types.coroutine`: then what it returns may be awaited."""
    while isinstance(func, functools.partial):
        func = func.func
    flags: int = getattr(getattr(func, "__code__", None), "co_flags", 0)
    return bool(flags & inspect.CO_ITERABLE_COROUTINE)


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
            now = source.now
            source.passed_at = now()
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
            now = source.now
            source.passed_at = now()
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
            now = source.now
            source.passed_at = now()
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
            step = _begun(inner)
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


def _begun(inner: AsyncGenerator[Any, Any]) -> Awaitable[Any]:
    """Its first step, of which no event loop hears: the wrapper alone is to close it.

    A loop that shuts down closes every generator it has heard of, all at once: the wrapper would find
    its own already closing, and call that a failure.
    """
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        return inner.asend(None)
    finally:
        sys.set_asyncgen_hooks(*hooks)
