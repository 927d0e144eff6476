"""What `@healthcheck` adds to a call that passes, beside `prometheus_client`'s `Counter.inc()`.

    python bench/health_decorator.py [--rounds 100] [--peers]

Every variant is timed in turn, round after round, and its best round counts: what others do on the
machine can only add. "Added" is that best minus the plain call's. `--peers` fetches py-healthcheck
into a throw-away place; it decorates nothing, its check runs when it is asked, so its figure is what
one question costs the service.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator

from _python import ROOT, described, system_python

system_python()
# An editable install is known to the environment's own interpreter alone.
sys.path.insert(0, str(ROOT / "packages" / "yaffle-health" / "src"))

from prometheus_client import Counter  # noqa: E402

from yaffle_health import Manager, healthcheck, set_default, use  # noqa: E402

ADDED_NS_MAX = 150
RATIO_MAX = 0.6
CALLS = 20_000
THREADS = 4


def plain() -> None:
    """The call that everything is measured against."""


async def plain_coroutine() -> None:
    """The same, awaited."""


def plain_generator() -> Iterator[int]:
    """The same, used up."""
    yield 1


class Naive:
    """What one writes first: a dict, a lock, a tuple."""

    def __init__(self) -> None:
        self.items: dict[str, tuple[str, float]] = {}
        self.lock = threading.Lock()

    def __call__(self, name: str, func: Callable[[], None]) -> Callable[[], None]:
        def wrapper(*args: object, **kwargs: object) -> None:
            result = func(*args, **kwargs)
            with self.lock:
                self.items[name] = ("pass", time.monotonic())
            return result

        return wrapper


def through(func: Callable[[], None]) -> Callable[[], None]:
    """A wrapper that does nothing: what any decorator costs."""

    def wrapper(*args: object, **kwargs: object) -> None:
        return func(*args, **kwargs)

    return wrapper


def failing(func: Callable[[], None]) -> Callable[[], None]:
    """Calls it and drops what it raises."""

    def caller() -> None:
        with contextlib.suppress(OSError):
            func()

    return caller


def raising() -> None:
    """A database that is away."""
    raise OSError("cannot reach mysql://nova:secret@db/nova")


def spent_ns(func: Callable[[], object]) -> float:
    """One round: nanoseconds a call, the loop included (it is in the plain call's figure too)."""
    repeat = range(CALLS)
    begin = time.perf_counter_ns()
    for _ in repeat:
        func()
    return (time.perf_counter_ns() - begin) / CALLS


def awaited_ns(func: Callable[[], Awaitable[None]]) -> float:
    """The same, inside one coroutine."""

    async def main() -> float:
        begin = time.perf_counter_ns()
        for _ in range(CALLS):
            await func()
        return (time.perf_counter_ns() - begin) / CALLS

    return asyncio.run(main())


def threaded_ns(func: Callable[[], object]) -> float:
    """Four threads at once; nanoseconds of the wall for each call of them all."""
    begin = threading.Barrier(THREADS + 1)

    def work() -> None:
        begin.wait()
        for _ in range(CALLS // THREADS):
            func()

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    begin.wait()
    started = time.perf_counter_ns()
    for thread in threads:
        thread.join()
    return (time.perf_counter_ns() - started) / CALLS


Measure = Callable[[], float]


def best(measures: dict[str, Measure], rounds: int) -> dict[str, float]:
    """The best round of each, all of them in turn."""
    found = dict.fromkeys(measures, float("inf"))
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name] = min(found[name], measure())
    return found


def variants(manager: Manager) -> dict[str, Measure]:
    """What is measured, by its name in the table."""
    counter = Counter("calls", "what a service counts anyway")
    decorated = healthcheck("database", [OSError])(plain)
    coroutine = healthcheck("database", [OSError])(plain_coroutine)
    generator = healthcheck("database", [OSError])(plain_generator)
    broken = failing(healthcheck("database", [OSError])(raising))
    locked = Naive()("database", plain)
    empty = failing(raising)

    def nobody() -> float:
        before = set_default(None)
        try:
            return spent_ns(decorated)
        finally:
            set_default(before)

    return {
        "plain call": lambda: spent_ns(plain),
        "@healthcheck, no manager": nobody,
        "@healthcheck, the process's manager": lambda: spent_ns(decorated),
        "wrapper that does nothing": lambda: spent_ns(through(plain)),
        "wrapper with a dict and a lock": lambda: spent_ns(locked),
        "Counter.inc()": lambda: spent_ns(counter.inc),
        "plain call, 4 threads": lambda: threaded_ns(plain),
        "@healthcheck, 4 threads": lambda: threaded_ns(decorated),
        "dict and lock, 4 threads": lambda: threaded_ns(locked),
        "Counter.inc(), 4 threads": lambda: threaded_ns(counter.inc),
        "plain coroutine": lambda: awaited_ns(plain_coroutine),
        "@healthcheck coroutine": lambda: awaited_ns(coroutine),
        "plain generator": lambda: spent_ns(lambda: list(plain_generator())),
        "@healthcheck generator": lambda: spent_ns(lambda: list(generator())),
        "a raise that is caught": lambda: spent_ns(empty),
        "@healthcheck of a raise": lambda: spent_ns(broken),
        "manager.report(warn)": lambda: spent_ns(lambda: manager.report("bus", "warn", "slow")),
    }


def in_a_context(manager: Manager, rounds: int) -> float:
    """After the first `use` each call asks the context variable: measured last, since it stays so."""
    decorated = healthcheck("database", [OSError])(plain)
    with use(manager):
        return min(spent_ns(decorated) for _ in range(rounds))


def one_reading(rounds: int, *, glance: bool = False) -> float:
    """Microseconds for the health of ten items, one of which fails; or for a look that finds no news."""
    manager = Manager()
    for n in range(9):
        manager.passed(f"item{n}")
    manager.report("database", "fail", "OSError: cannot reach mysql://nova:secret@db/nova")
    readings = 500
    read = manager.seen if glance else manager.health
    spent = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        for _ in range(readings):
            read()
        spent = min(spent, (time.perf_counter_ns() - begin) / readings / 1000)
    return spent


def py_healthcheck(rounds: int) -> float | None:
    """Microseconds for one answer of py-healthcheck with one check that does nothing, uncached."""
    with tempfile.TemporaryDirectory() as place:
        # The environment's own pip: the distribution's Python may have none.
        pip = [
            str(ROOT / ".venv" / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--target",
            place,
        ]
        if subprocess.run([*pip, "py-healthcheck"], check=False).returncode:
            return None
        sys.path.insert(0, place)
        health_check = importlib.import_module("healthcheck").HealthCheck

        health = health_check(success_ttl=-1, checkers=[lambda: (True, "fine")])
        spent = float("inf")
        for _ in range(rounds):
            begin = time.perf_counter_ns()
            for _ in range(500):
                health.run()
            spent = min(spent, (time.perf_counter_ns() - begin) / 500 / 1000)
        sys.path.remove(place)
        return spent


def main() -> int:
    """Print the table and the two ratios; 1 if a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--peers", action="store_true", help="fetch and measure py-healthcheck")
    options = parser.parse_args()
    print(described())
    manager = Manager(service_id="bench")
    set_default(manager)
    found = best(variants(manager), options.rounds)
    base = found["plain call"]
    bases = {
        "@healthcheck, 4 threads": "plain call, 4 threads",
        "dict and lock, 4 threads": "plain call, 4 threads",
        "Counter.inc(), 4 threads": "plain call, 4 threads",
        "@healthcheck coroutine": "plain coroutine",
        "@healthcheck generator": "plain generator",
        "@healthcheck of a raise": "a raise that is caught",
    }
    found["@healthcheck, a context's manager"] = in_a_context(manager, options.rounds)
    print(f"{'best of ' + str(options.rounds) + ' rounds':40}{'ns a call':>10}{'added':>8}")
    for name, spent in found.items():
        print(f"{name:40}{spent:10.0f}{spent - found[bases.get(name, 'plain call')]:8.0f}")
    print(f"{'one reading of ten items':40}{one_reading(options.rounds):10.1f} us")
    found_nothing = one_reading(options.rounds, glance=True)
    print(f"{'a look at ten items without news':40}{found_nothing:10.1f} us")
    if options.peers:
        theirs = py_healthcheck(options.rounds)
        shown = "could not be fetched" if theirs is None else f"{theirs:10.1f} us"
        print(f"{'py-healthcheck, one answer, one check':40}{shown}")
    return judged(found, base)


def judged(found: dict[str, float], base: float) -> int:
    """The ratio for both ways to find the manager, the nanoseconds for the one that services use."""
    missed = 0
    for way, most in (("the process's manager", ADDED_NS_MAX), ("a context's manager", None)):
        added = found[f"@healthcheck, {way}"] - base
        ratio = added / found["Counter.inc()"]
        good = ratio <= RATIO_MAX and (most is None or added <= most)
        missed |= not good
        print(
            f"{way}: {added:.0f} ns added (target {most or 'none'}), "
            f"{ratio:.2f} x Counter.inc() (target {RATIO_MAX}): {'good' if good else 'MISSED'}"
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
