"""Which manager a function reports to is decided when it is called (pitfall 11)."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from yaffle_health import Manager, find, healthcheck, set_default, use


@healthcheck("x")
def work() -> None:
    """Decorated at import, long before there is any manager."""


def names(manager: Manager) -> list[str]:
    """What was heard; forgotten afterwards."""
    found = [check.name for check in manager.health().checks]
    manager.reset()
    return found


@pytest.fixture(autouse=True)
def _no_default() -> Iterator[None]:
    before = set_default(None)
    yield
    set_default(before)


def test_without_a_manager_functions_just_work() -> None:
    assert find() is None
    work()


def test_the_default_of_the_process_serves_threads_too() -> None:
    manager = Manager()
    assert set_default(manager) is None
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert names(manager) == ["x"]
    other = Manager()
    assert set_default(other) is manager
    work()
    assert (names(manager), names(other)) == ([], ["x"])
    set_default(None)
    work()
    assert (names(manager), names(other)) == ([], [])


def test_the_context_comes_before_the_default_and_ends_with_its_block() -> None:
    default, near, nearer = Manager(), Manager(), Manager()
    set_default(default)
    work()
    with use(near) as given:
        assert given is near
        work()
        with use(nearer):
            assert find() is nearer
            work()
            assert (names(default), names(near), names(nearer)) == (["x"], ["x"], ["x"])
        work()
    work()
    assert (names(default), names(near), names(nearer)) == (["x"], ["x"], [])


def test_a_default_set_inside_a_context_does_not_overrule_it() -> None:
    default, near = Manager(), Manager()
    set_default(default)
    work()
    assert [check.name for check in default.health().checks] == ["x"]
    with use(near):
        set_default(default)
        work()
    assert names(near) == ["x"]


def test_a_thread_does_not_inherit_the_context_unless_it_is_given() -> None:
    manager = Manager()
    with use(manager):
        bare = threading.Thread(target=work)
        given = threading.Thread(target=contextvars.copy_context().run, args=(work,))
        bare.start()
        bare.join()
        assert names(manager) == []
        given.start()
        given.join()
        assert names(manager) == ["x"]


def test_tasks_keep_their_managers_apart() -> None:
    managers = [Manager() for _ in range(3)]

    async def worker(manager: Manager) -> None:
        with use(manager):
            for _ in range(20):
                await asyncio.sleep(0)
                work()

    async def main() -> None:
        await asyncio.gather(*map(worker, managers))

    asyncio.run(main())
    for manager in managers:
        assert len(manager.health().checks) == 1
        assert names(manager) == ["x"]


def test_threads_with_different_managers_never_write_into_each_others() -> None:
    managers = [Manager() for _ in range(4)]
    begin = threading.Barrier(4)

    @healthcheck("shared function", [OSError])
    def shared(works: bool) -> None:
        if not works:
            raise OSError

    def worker(manager: Manager, works: bool) -> None:
        with use(manager):
            begin.wait()
            for _ in range(2000):
                with contextlib.suppress(OSError):
                    shared(works)

    threads = [
        threading.Thread(target=worker, args=(manager, n % 2 == 0))
        for n, manager in enumerate(managers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [str(m.health().status) for m in managers] == ["pass", "fail", "pass", "fail"]


# --- The seed's context object -------------------------------------------------------------------


class Conductor:
    """As in nova: methods take the context first, or keep it."""

    def __init__(self, context: object = None) -> None:
        self.context = context

    @healthcheck("database")
    def save(self, context: object, instance: str) -> str:
        return instance

    @healthcheck("database")
    def save_by_keyword(self, *, ctxt: object) -> None:
        """The other usual name."""

    @healthcheck("database")
    def refresh(self) -> None:
        """The context is kept on self."""


def test_the_context_object_carries_the_manager() -> None:
    manager = Manager()
    context = SimpleNamespace(healthcheck_manager=manager)
    assert Conductor().save(context, "i") == "i"
    assert names(manager) == ["database"]
    Conductor().save(instance="i", context=context)
    assert names(manager) == ["database"]
    Conductor().save_by_keyword(ctxt=context)
    assert names(manager) == ["database"]
    Conductor(context).refresh()
    assert names(manager) == ["database"]
    assert find(context) is manager


def test_every_call_goes_to_its_own_context_object() -> None:
    one, other = Manager(), Manager()
    for manager in (one, other, one):
        Conductor().save(SimpleNamespace(healthcheck_manager=manager), "i")
        assert names(manager) == ["database"]
    assert names(other) == []


def test_context_variable_and_default_come_first() -> None:
    carried, default = Manager(), Manager()
    set_default(default)
    Conductor().save(SimpleNamespace(healthcheck_manager=carried), "i")
    assert (names(carried), names(default)) == ([], ["database"])
    set_default(None)
    Conductor().save(SimpleNamespace(healthcheck_manager=carried), "i")
    assert names(carried) == ["database"]


class Hostile:
    """Invents attributes, or raises for them."""

    def __init__(self, error: type[Exception] | None) -> None:
        self.error = error

    def __getattr__(self, name: str) -> object:
        if self.error:
            raise self.error(name)
        return f"an invented {name}"


def test_an_object_that_carries_no_manager_is_left_alone() -> None:
    for context in (
        None,
        "text",
        Hostile(None),
        Hostile(RuntimeError),
        Hostile(NotImplementedError),
    ):
        assert Conductor().save(context, "i") == "i"
        assert find(context) is None


# --- Late, and again -----------------------------------------------------------------------------


def test_after_reset_and_unregister_functions_find_their_way_again() -> None:
    manager = Manager()
    set_default(manager)
    for forget in (manager.reset, lambda: manager.unregister("x"), manager.reset_soon):
        work()
        forget()
        assert manager.health().checks == ()
        work()
        assert [check.name for check in manager.health().checks] == ["x"]


def test_a_pass_takes_no_lock() -> None:
    """Held by another thread for ever, the lock stops whoever asks for it: functions do not."""
    manager = Manager()
    set_default(manager)
    work()
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with manager._lock:
            held.set()
            release.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(30)
    worker = threading.Thread(target=lambda: [work() for _ in range(1000)])
    worker.start()
    worker.join(10)
    stuck = worker.is_alive()
    release.set()
    holder.join(10)
    assert not stuck
