"""Every kind of callable stays what it was, and its item passes when its body ends (pitfall 7)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import traceback
import types
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from yaffle_health import Manager, Status, healthcheck, use
from yaffle_health.errors import BadOption


class Broken(Exception):
    """What the bodies raise."""


@pytest.fixture
def manager() -> Iterator[Manager]:
    with use(Manager()) as manager:
        yield manager


def status(manager: Manager) -> Status | None:
    checks = manager.health().checks
    return checks[0].status if checks else None


# --- The same body in every kind: what it does is decided by its argument ------------------------


def body(what: str) -> str:
    if what == "raise":
        raise Broken("it broke")
    return what


class Kinds:
    """One callable of each kind, each with the same item, each called with one word."""

    @healthcheck("x")
    def method(self, what: str) -> str:
        return body(what)

    @healthcheck("x")
    @classmethod
    def above_classmethod(cls, what: str) -> str:
        return body(what)

    @classmethod
    @healthcheck("x")
    def below_classmethod(cls, what: str) -> str:
        return body(what)

    @healthcheck("x")
    @staticmethod
    def above_staticmethod(what: str) -> str:
        return body(what)

    @staticmethod
    @healthcheck("x")
    def below_staticmethod(what: str) -> str:
        return body(what)

    @healthcheck("x")
    async def coroutine(self, what: str) -> str:
        await asyncio.sleep(0)
        return body(what)

    @healthcheck("x")
    @staticmethod
    async def above_static_coroutine(what: str) -> str:
        return body(what)

    @healthcheck("x")
    def generator(self, what: str) -> Iterator[str]:
        yield "first"
        yield body(what)

    @healthcheck("x")
    async def async_generator(self, what: str) -> AsyncIterator[str]:
        yield "first"
        await asyncio.sleep(0)
        yield body(what)

    @healthcheck("x")
    @classmethod
    async def above_class_async_generator(cls, what: str) -> AsyncIterator[str]:
        yield body(what)

    @healthcheck("x")
    @types.coroutine
    def old_coroutine(self, what: str) -> Any:
        yield from asyncio.sleep(0).__await__()
        return body(what)


class SyncCallable:
    """An object that is called."""

    def __call__(self, what: str) -> str:
        return body(what)


class AsyncCallable:
    """An object whose call is a coroutine."""

    async def __call__(self, what: str) -> str:
        return body(what)


class GeneratingCallable:
    """An object whose call is a generator."""

    def __call__(self, what: str) -> Iterator[str]:
        yield "first"
        yield body(what)


@healthcheck("x")
def function(what: str) -> str:
    return body(what)


def _bodies() -> dict[str, Callable[[str], Any]]:
    kinds = Kinds()
    found = {name: getattr(kinds, name) for name in vars(Kinds) if not name.startswith("__")}
    found |= {f"class {n}": getattr(Kinds, n) for n in vars(Kinds) if "class" in n or "static" in n}
    found["function"] = function
    found["lambda"] = healthcheck("x")(lambda what, *_: body(what))
    found["partial"] = healthcheck("x")(functools.partial(body))
    found["partial coroutine"] = healthcheck("x")(functools.partial(kinds.coroutine))
    found["partial generator"] = healthcheck("x")(functools.partial(kinds.generator))
    found["partial old coroutine"] = healthcheck("x")(functools.partial(kinds.old_coroutine))
    found["generating object"] = healthcheck("x")(GeneratingCallable())
    for name in ("method", "coroutine", "generator", "async_generator", "old_coroutine"):
        found[f"twice {name}"] = healthcheck("x")(getattr(kinds, name))
    found["bound method"] = healthcheck("x")(Kinds().method.__wrapped__.__get__(kinds))
    found["callable object"] = healthcheck("x")(SyncCallable())
    found["async callable object"] = healthcheck("x")(AsyncCallable())
    found["builtin"] = healthcheck("x")(lambda what: [].index(1) if what == "raise" else what)
    return found


def run_to_the_end(made: Any) -> None:
    """Whatever a call returned, use it up."""
    if inspect.isasyncgen(made):

        async def drain() -> None:
            async for _ in made:
                pass

        asyncio.run(drain())
    elif inspect.isawaitable(made):

        async def awaited() -> Any:
            return await made

        assert asyncio.run(awaited()) == "fine"
    elif inspect.isgenerator(made):
        assert list(made) == ["first", "fine"]
    else:
        assert made == "fine"


@pytest.mark.parametrize("kind", sorted(_bodies()))
def test_a_return_passes_and_a_raise_fails(kind: str, manager: Manager) -> None:
    call = _bodies()[kind]
    run_to_the_end(call("fine"))
    assert status(manager) is Status.PASS, "no pass for a body that ended"
    with pytest.raises((Broken, ValueError)):
        run_to_the_end(call("raise"))
    assert status(manager) is Status.FAIL, "a body that raised counted as a pass"
    run_to_the_end(call("fine"))
    assert status(manager) is Status.PASS


def test_nothing_passes_before_its_body_has_run(manager: Manager) -> None:
    kinds = Kinds()
    waiting = [kinds.coroutine("fine"), kinds.generator("fine"), kinds.async_generator("fine")]
    next(waiting[1])
    assert status(manager) is None
    waiting[0].close()
    waiting[1].close()
    assert status(manager) is None


def test_inspect_and_frameworks_see_no_difference() -> None:
    plain, wrapped = Kinds.__dict__, {name: getattr(Kinds, name) for name in vars(Kinds)}
    for predicate in (
        inspect.iscoroutinefunction,
        inspect.isgeneratorfunction,
        inspect.isasyncgenfunction,
        asyncio.iscoroutinefunction,
    ):
        for name, func in wrapped.items():
            if hasattr(func, "__wrapped__"):
                assert predicate(func) == predicate(func.__wrapped__), (predicate, name)
    assert isinstance(plain["above_classmethod"], classmethod)
    assert isinstance(plain["above_staticmethod"], staticmethod)
    assert function.__name__ == "function"
    assert function.__module__ == __name__
    assert inspect.signature(function) == inspect.signature(function.__wrapped__)
    assert Kinds.method.__qualname__ == "Kinds.method"


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        pytest.param(property(lambda self: 1), "put @property above @healthcheck", id="property"),
        pytest.param(functools.cached_property(len), "@cached_property above", id="cached"),
        pytest.param(Broken, "class Broken: decorate its methods", id="class"),
        pytest.param(42, "42: it is not callable", id="number"),
    ],
)
def test_what_cannot_be_wrapped_is_refused_with_what_to_do(thing: object, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        healthcheck("x")(thing)


def test_without_a_name_it_says_how() -> None:
    with pytest.raises(TypeError, match=r"@healthcheck\('database'\)"):
        healthcheck(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="name = ''"):
        healthcheck("")
    with pytest.raises(BadOption, match="ttl = -1"):
        healthcheck("x", ttl_s=-1)
    with pytest.raises(TypeError, match="exception classes, not 'OSError'"):
        healthcheck("x", ["OSError"])  # type: ignore[list-item]


# --- Generators ----------------------------------------------------------------------------------


def test_a_generator_is_sent_to_thrown_into_and_returns_through_the_wrapper(
    manager: Manager,
) -> None:
    @healthcheck("x")
    def echo() -> Any:
        got = []
        while len(got) < 3:
            try:
                got.append((yield len(got)))
            except KeyError as error:
                got.append(error)
        return got

    running = echo()
    thrown = KeyError("k")
    assert next(running) == 0
    assert running.send("a") == 1
    assert running.throw(thrown) == 2
    with pytest.raises(StopIteration) as ended:
        running.send("b")
    assert ended.value.value == ["a", thrown, "b"]
    assert status(manager) is Status.PASS


def test_a_generator_closed_early_says_nothing_and_is_cleaned_up(manager: Manager) -> None:
    cleaned = []

    @healthcheck("x")
    def numbers() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            cleaned.append("sync")

    running = numbers()
    next(running)
    running.close()
    assert (status(manager), cleaned) == (None, ["sync"])


def test_an_async_generator_is_sent_to_and_thrown_into_through_the_wrapper(
    manager: Manager,
) -> None:
    @healthcheck("x")
    async def echo() -> Any:
        got: list[Any] = []
        while len(got) < 2:
            try:
                got.append((yield list(got)))
            except KeyError as error:
                got.append(error)
        yield got

    async def main() -> None:
        running, thrown = echo(), KeyError("k")
        assert await anext(running) == []
        assert await running.asend("a") == ["a"]
        assert await running.athrow(thrown) == ["a", thrown]
        with pytest.raises(StopAsyncIteration):
            await anext(running)

    asyncio.run(main())
    assert status(manager) is Status.PASS


def test_an_async_generator_closed_early_says_nothing_and_is_cleaned_up(manager: Manager) -> None:
    cleaned = []

    @healthcheck("x")
    async def numbers() -> AsyncIterator[int]:
        try:
            for n in range(10):
                yield n
        finally:
            await asyncio.sleep(0)
            cleaned.append("async")

    async def main() -> None:
        closed = numbers()
        await anext(closed)
        await closed.aclose()
        assert cleaned == ["async"], "aclose() is done when it returns"
        abandoned = numbers()
        await anext(abandoned)
        del abandoned
        for _ in range(9):
            await asyncio.sleep(0)

    asyncio.run(main())
    assert (status(manager), cleaned) == (None, ["async", "async"])


@pytest.mark.parametrize("how", ["kept", "left in a loop", "the body fails"])
def test_a_loop_that_shuts_down_closes_it_as_it_would_the_undecorated_one(
    manager: Manager, how: str
) -> None:
    """The loop closes all generators it knows of at once: it is to know of one, as always."""

    def closed_by_the_loop(decorate: Callable[[Any], Any]) -> list[str]:
        seen: list[str] = []

        @decorate
        async def feed() -> AsyncIterator[int]:
            try:
                yield 1
                yield 2
            finally:
                seen.append("closing")
                await asyncio.sleep(0)
                seen.append("closed")
                if how == "the body fails":
                    raise KeyError("in the end")

        async def main() -> object:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, told: seen.append(repr(told.get("exception"))))
            if how == "left in a loop":
                async for _ in feed():
                    break
                return None
            running = feed()
            await anext(running)
            return running

        asyncio.run(main())
        return seen

    bare = closed_by_the_loop(lambda func: func)
    assert closed_by_the_loop(healthcheck("x", [RuntimeError])) == bare
    assert status(manager) is None


def test_what_an_async_generator_does_not_catch_comes_out_of_it(manager: Manager) -> None:
    @healthcheck("x")
    async def one() -> AsyncIterator[int]:
        yield 1

    async def main() -> BaseException:
        running, thrown = one(), Broken("thrown in")
        await anext(running)
        with pytest.raises(Broken) as caught:
            await running.athrow(thrown)
        assert caught.value is thrown
        return thrown

    asyncio.run(main())
    assert status(manager) is Status.FAIL


def test_it_wraps_what_contextlib_wraps(manager: Manager) -> None:
    @contextlib.contextmanager
    @healthcheck("x", [Broken])
    def session() -> Iterator[str]:
        yield "session"

    with session() as given:
        assert given == "session"
    assert status(manager) is Status.PASS
    with pytest.raises(Broken), session():
        raise Broken("inside")
    assert status(manager) is Status.FAIL


# --- The error goes on untouched -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["function", "coroutine", "generator", "async_generator"])
def test_the_same_error_goes_on_with_one_frame_more(kind: str, manager: Manager) -> None:
    error, cause = Broken("it broke"), OSError("cause")

    def plain() -> None:
        raise error from cause

    async def coroutine() -> None:
        raise error from cause

    def generator() -> Iterator[None]:
        raise error from cause
        yield

    async def async_generator() -> AsyncIterator[None]:
        raise error from cause
        yield

    func = {
        "function": plain,
        "coroutine": coroutine,
        "generator": generator,
        "async_generator": async_generator,
    }[kind]

    async def use_up(made: Any) -> None:
        if inspect.isasyncgen(made):
            await anext(made)
        elif inspect.isawaitable(made):
            await made
        elif inspect.isgenerator(made):
            next(made)

    async def frames(func: Callable[[], Any]) -> list[str]:
        error.__traceback__ = None
        with pytest.raises(Broken) as caught:
            await use_up(func())
        assert caught.value is error
        assert error.__cause__ is cause
        assert error.__context__ is None
        return [frame.name for frame in traceback.extract_tb(error.__traceback__)]

    bare = asyncio.run(frames(func))
    wrapped = asyncio.run(frames(healthcheck("x")(func)))
    assert [name for name in wrapped if name != "checked"] == bare
    assert wrapped.count("checked") == 1


# --- As a context manager ------------------------------------------------------------------------


def test_a_with_block_is_an_item_too(manager: Manager) -> None:
    with healthcheck("x", [Broken]):
        pass
    assert status(manager) is Status.PASS
    error = Broken("it broke")
    with pytest.raises(Broken) as caught, healthcheck("x", [Broken]):
        raise error
    assert caught.value is error
    assert manager.health().checks[0].output == "Broken: it broke"
    with pytest.raises(KeyError), healthcheck("x", [Broken]):
        raise KeyError
    assert status(manager) is Status.FAIL


def test_one_check_may_be_entered_by_many_at_once(manager: Manager) -> None:
    check = healthcheck("x")

    async def worker(n: int) -> None:
        async with check:
            await asyncio.sleep(0)
            if n == 3:
                raise Broken

    async def main() -> list[Any]:
        return await asyncio.gather(*(worker(n) for n in range(5)), return_exceptions=True)

    assert [type(result) for result in asyncio.run(main())].count(Broken) == 1
    with check, check:
        pass
    assert status(manager) is Status.PASS
