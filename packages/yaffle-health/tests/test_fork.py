"""A child of a fork is a process of its own (pitfall 1, the memory's side), in programs really forked.

Each program is a process of its own, because forking the test's process would fork its threads' locks.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

FORKED = """
    import os, threading
    from yaffle_health import Manager, healthcheck, set_default

    manager = Manager()
    set_default(manager)
    manager.register("db", groups=("live",), ttl_s=50)

    @healthcheck("db", [OSError])
    def ping(works):
        if not works:
            raise OSError("down")

    def words(manager):
        return [(c.name, str(c.status)) for c in manager.health().checks]

    def in_child(look):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os.write(writing, repr(look()).encode())
            os._exit(0)
        os.close(writing)
        said = os.read(reading, 9999).decode()
        os.close(reading)
        assert os.waitpid(child, 0)[1] == 0, "the child hung or died"
        return said
"""


def run(program: str) -> str:
    text = "import signal\n" + textwrap.dedent(FORKED) + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_child_begins_with_an_empty_memory_and_the_parent_keeps_its_own() -> None:
    run("""
        try:
            ping(False)
        except OSError:
            pass
        manager.passed("bus")
        assert in_child(lambda: words(manager)) == "[]"
        assert words(manager) == [("bus", "pass"), ("db", "fail")]
    """)


def test_functions_of_the_child_report_to_its_own_memory() -> None:
    run("""
        ping(True)
        assert in_child(lambda: (ping(True), words(manager))[1]) == "[('db', 'pass')]"
        def failing():
            try:
                ping(False)
            except OSError:
                return words(manager), words_of_live()
        def words_of_live():
            return [c.name for c in manager.health("live").checks]
        assert in_child(failing) == "([('db', 'fail')], ['db'])", "declarations are inherited"
        assert words(manager) == [("db", "pass")]
    """)


def test_a_lock_that_another_thread_held_at_the_fork_does_not_stop_the_child() -> None:
    run("""
        held, release = threading.Event(), threading.Event()
        def hold():
            with manager._lock:
                held.set()
                release.wait(120)
        holder = threading.Thread(target=hold)
        holder.start()
        held.wait(60)
        def work():
            manager.report("x", "fail", "y")
            return words(manager)
        assert in_child(work) == "[('x', 'fail')]"
        release.set()
        holder.join()
    """)


def test_a_fork_in_the_middle_of_a_locked_section_leaves_a_sound_child() -> None:
    run("""
        with manager._lock:
            assert in_child(lambda: (manager.passed("x"), words(manager))[1]) == "[('x', 'pass')]"
    """)


def test_a_random_id_is_a_process_own_and_a_given_one_is_the_service_own() -> None:
    run("""
        named = Manager(service_id="nova-7")
        mine = manager.service.service_id
        theirs = in_child(lambda: (manager.service.service_id, named.service.service_id))
        assert mine not in theirs and "nova-7" in theirs
        assert manager.service.service_id == mine
    """)


def test_children_of_children_and_of_multiprocessing() -> None:
    run("""
        import multiprocessing
        ping(True)
        assert in_child(lambda: in_child(lambda: words(manager))) == repr("[]")
        def target(answers):
            before = words(manager)
            ping(True)
            answers.put((before, words(manager)))
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        process = context.Process(target=target, args=(answers,))
        process.start()
        assert answers.get(timeout=60) == ([], [("db", "pass")])
        process.join(60)
    """)


def test_forking_while_threads_write() -> None:
    run("""
        stop = threading.Event()
        def write(n):
            while not stop.is_set():
                manager.report("a", "fail", "x", component_id=str(n))
                ping(True)
                if n == 0:
                    manager.reset()
        threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(30):
                assert in_child(lambda: (ping(True), words(manager))[1]) == "[('db', 'pass')]"
        finally:
            stop.set()
    """)


@pytest.mark.parametrize("forgets", ["manager.reset()", "manager.unregister('db')"])
def test_forked_while_a_thread_forgets_the_child_is_heard(forgets: str) -> None:
    """At each step of it: a slot that was let go and not disowned would swallow all that it says."""
    said = run(f"""
        ping(True)
        held, go = threading.Semaphore(0), threading.Semaphore(0)

        class Held(dict):
            def hold(self):
                if threading.current_thread() is forgetting:
                    held.release()
                    go.acquire(timeout=120)
            def values(self):
                self.hold()
                return super().values()
            def __getitem__(self, key):
                self.hold()
                return super().__getitem__(key)
            def __delitem__(self, key):
                self.hold()
                super().__delitem__(key)

        manager._sources, manager._items = Held(manager._sources), Held(manager._items)
        forgetting = threading.Thread(target=lambda: {forgets}, daemon=True)
        forgetting.start()
        while forgetting.is_alive():
            if held.acquire(timeout=0.1):
                said = in_child(lambda: (ping(True), ping(True), words(manager))[-1])
                assert said == "[('db', 'pass')]", said
                print("held")
                go.release()
    """)
    assert said.count("held") >= 2, said


def test_a_connection_of_the_parent_says_nothing_about_the_child() -> None:
    run("""
        from yaffle_health import Connection
        bus = Connection("bus")
        bus.lost("reset")
        bus.retry_failed("refused")
        assert words(manager) == [("bus", "fail")]
        held, release = threading.Event(), threading.Event()
        def hold():
            with bus._lock:
                held.set()
                release.wait(120)
        holder = threading.Thread(target=hold)
        holder.start()
        held.wait(60)
        assert in_child(lambda: (bus.lost("x"), words(manager))[1]) == "[('bus', 'warn')]"
        release.set()
        holder.join()
        bus.lost("again")
        assert words(manager) == [("bus", "fail")], "the parent keeps its own"
    """)


def test_forking_while_threads_tell_of_a_connection() -> None:
    run("""
        from yaffle_health import Connection
        bus, stop = Connection("bus"), threading.Event()
        def tell():
            while not stop.is_set():
                bus.lost("x")
                bus.up()
        threads = [threading.Thread(target=tell) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(30):
                assert in_child(lambda: (bus.lost("x"), words(manager))[1]) == "[('bus', 'warn')]"
        finally:
            stop.set()
    """)


def test_a_heart_begins_anew() -> None:
    run("""
        import time
        from yaffle_health import ThreadLag
        from yaffle_health.lag import Heart
        lag = ThreadLag(manager, Heart(manager, "threads", interval_s=30))
        lag._heart.beat(5)
        assert words(manager) == [("threads", "warn")]
        def again():
            lag.start()
            end = time.monotonic() + 40
            while not words(manager) and time.monotonic() < end:
                time.sleep(0.005)
            return words(manager)
        # The thread that beats in the parent may hold the lock of what stops it.
        with lag._stop._cond:
            assert in_child(again) == "[('threads', 'pass')]"
    """)


PATCHES = {
    "eventlet": """
        import warnings
        warnings.simplefilter("ignore")
        import eventlet
        {early}
        eventlet.monkey_patch()
        {late}
        original = eventlet.patcher.original("threading")
        spawn, wait = eventlet.spawn, eventlet.sleep
    """,
    "gevent": """
        import gevent.monkey
        {early}
        gevent.monkey.patch_all()
        {late}
        import gevent
        class original:
            Thread = gevent.monkey.get_original("threading", "Thread")
        spawn, wait = gevent.spawn, gevent.sleep
    """,
}

GREEN = """
    import yaffle_health
    from yaffle_health import Manager, healthcheck, use

    manager = Manager()
    assert type(manager._lock).__module__ == "_thread", "a green lock has no place in a native thread"

    @healthcheck("db", [OSError])
    def ping(n):
        if n % 2:
            raise OSError(n)

    def green(n):
        with use(manager):
            for turn in range(200):
                try:
                    ping(turn)
                except OSError:
                    pass
                if turn % 20 == 0:
                    wait(0)

    seen = []
    greens = [spawn(green, n) for n in range(5)]
    for _ in range(40):
        wait(0)
        seen.append(str(manager.health().status))
    for each in greens:
        (each.wait if hasattr(each, "wait") else each.join)()
    assert str(manager.health().status) == "fail" and set(seen) <= {"pass", "fail"}
    print("sound")
"""


@pytest.mark.parametrize("library", sorted(PATCHES))
@pytest.mark.parametrize("order", ["early", "late"])
def test_in_a_patched_program_the_lock_is_the_systems(library: str, order: str) -> None:
    """Imported before the patch or after it: the endpoint's native thread shares the lock."""
    own = "import yaffle_health.manager, yaffle_health.decorator"
    patch = textwrap.dedent(PATCHES[library]).format(
        early=own if order == "early" else "", late=own if order == "late" else ""
    )
    done = subprocess.run(
        [sys.executable, "-c", patch + textwrap.dedent(GREEN)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "sound\n"), done.stderr
