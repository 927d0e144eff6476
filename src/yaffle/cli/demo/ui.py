"""The two ways to watch the demo: one story told in lines, or a view that goes on until Ctrl-C."""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from yaffle.cli.client.deadlines import Deadline
from yaffle.cli.client.native import Api
from yaffle.cli.demo import listing, scenario, tty_watchdog
from yaffle.cli.demo.fixture import HEALTHY_S, START_S, DemoFailed, World, inspect_node
from yaffle.cli.exit_codes import ExitCode
from yaffle.cli.output import clean
from yaffle.errors import YaffleError

if TYPE_CHECKING:
    from types import FrameType

TOTAL_S: Final = 70.0
"""Of --once, before its cleaning up: together with that it stays below 90 s."""
VERIFY_S: Final = 10.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def once() -> int:
    """Tell one failure and its healing; return 0 only if the node really came back."""
    deadline = Deadline(TOTAL_S)
    try:
        with _world() as world:
            _begin(world, deadline)
            with Api(world.url) as api, _log_shown(world):
                _tell(world, api, deadline)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except OSError as error:
        return _unheard(error)
    except YaffleError as error:
        _say(f"FAILED: {error}")
        return ExitCode.FAILED
    return ExitCode.OK


def live() -> int:
    """Show the first failure, then go on until SIGINT or SIGTERM; return 0 after a clean end."""
    from yaffle.cli.demo import view

    try:
        with _world() as world:
            _begin(world, Deadline(TOTAL_S))
            with listing.listed(world.card), Api(world.url) as api:
                view.watch(world, api)
    except KeyboardInterrupt:
        return ExitCode.OK
    except OSError as error:
        return _unheard(error)
    except YaffleError as error:
        _say(f"FAILED: {error}")
        return ExitCode.FAILED
    return ExitCode.OK


def _begin(world: World, deadline: Deadline) -> None:
    _say(f"starting a server and a cluster of three web servers in {world.folder}")
    world.start(deadline.within(START_S))
    with Api(world.url) as api:
        world.build(api, deadline.within(HEALTHY_S))
        for node in world.nodes(api):
            found = inspect_node(node)
            pid = found.pid if found else "?"
            port = dict(node.get("attributes") or {}).get("port")  # type: ignore[call-overload]
            _say(f"{node.get('name')}: healthy, process {pid}, port {port}")


def _tell(world: World, api: Api, deadline: Deadline) -> None:
    failure = scenario.fail_one(world, api)
    _say(f"kill -9 {failure.pid}: {failure.name} is gone")
    incident = scenario.await_end(api, failure, deadline)
    marks = scenario.timeline(failure, incident)
    for line in scenario.lines(failure, marks):
        _say(line)
    verified, answer = scenario.verify(world, api, failure, deadline.within(VERIFY_S))
    _say(scenario.lines(failure, [verified])[0])
    state = incident.get("state")
    if state != "recovered":
        raise DemoFailed(f"the incident ended {state}: {incident.get('reason')}")
    _say(f"{failure.name} came back: process {answer.pid} in place of {failure.pid}")


@contextmanager
def _log_shown(world: World) -> Iterator[None]:
    """Show the end of the server's log where the story fails, while there is one."""
    try:
        yield
    except YaffleError:
        _say(f"the end of the server's log:\n{world.log_end()}")
        raise


@contextmanager
def _world() -> Iterator[World]:
    """Yield a world whose end is certain; signals end it in order, and cannot end the ending."""
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    world = World()
    try:
        with tty_watchdog.watched():
            yield world
    finally:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        _say("removing the nodes, the server and their folder")
        problems = world.remove()
        for problem in problems:
            _say(f"note: {problem}")
        left = world.members()
        _say(f"LEFT BEHIND: {left}" if left else "nothing is left")


def _unheard(error: OSError) -> int:
    """Return the code for a terminal or pipe that went away; raise what is something else."""
    if error.errno not in {errno.EIO, errno.EPIPE}:
        raise error
    return ExitCode.FAILED


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    try:
        print(clean(text), flush=True)
    except OSError:
        # Whoever read our lines is gone (a closed pipe or terminal): removing goes on all the same.
        sys.stdout = open("/dev/null", "w")  # noqa: SIM115, PTH123
