"""Starts the helper: a fresh interpreter with our sockets, that nobody here has to wait for.

posix_spawn, and never a fork: the host has threads, and may be large. The program that is started
forks at once and ends, with 0 whatever happens, since gunicorn's arbiter stops at codes of its own.
So the helper is init's child, in a session of its own: no wait of the host's can meet it, no signal
of a terminal reaches it. What is started is a child for the some 10 ms that Python needs to start.
Where the host is init itself, in a container, the helper is its child after all, and reaped here.

Descriptors of the helper: 0 and 1 nothing, 2 its end of the channel, then those below.
"""

from __future__ import annotations

import _socket
import contextlib
import fcntl
import os
import posix
import signal
import sys
from collections.abc import Sequence
from typing import Final

from yaffle_health.errors import BadOption
from yaffle_health.server.held import Descriptor

CHANNEL_FD: Final = 2
"""A stream socket to the host. Here the helper says who it is and what is wrong; the host's end is
closed, or has anything to say: the helper ends."""
HOST_FD: Final = 3
"""A pidfd of the host: readable when the host has ended, whoever else holds what it had open."""
MEMORY_FD: Final = 4
LISTENERS_FD: Final = 5

# Behind the standard library: a package of that place may be called as one of its modules.
_PROGRAM: Final = """\
import os, sys
os.fork() and os._exit(0)
os.write(2, b"pid %d\\n" % os.getpid())
if sys.implementation.cache_tag != sys.argv[1]: sys.exit(f"{sys.executable} is no {sys.argv[1]}")
sys.path.append(sys.argv[2])
from yaffle_health.server.helper import main
main(int(sys.argv[3]))
"""
# What a host may have set to be ignored, or blocked, is not so in the helper; it decides anew.
_SIGNALS: Final = [number for number in range(1, 32) if number not in {9, 19}]
_FROM_THE_ENVIRONMENT: Final = ("LD_LIBRARY_PATH",)


class Started:
    """A helper that was started: `close` forgets it and leaves it alone."""

    def __init__(self, channel: _socket.socket, child: Descriptor) -> None:
        """`child` is a pidfd of the process that ends at once."""
        self.channel, self.child = channel, child
        self.pid, self.process = 0, Descriptor(-1)

    def known_as(self, pid: int) -> None:
        """Take a number that the helper has said for its own; by a pidfd, since numbers come again."""
        try:
            self.process = Descriptor(os.pidfd_open(pid))
            self.channel.setblocking(False)
            # It was alive until now, and so has the number been its own.
            ended = self.channel.recv(1, _socket.MSG_PEEK) == b""
        except (BlockingIOError, InterruptedError):
            ended = False
        except OSError:
            ended = True
        if ended:
            self.process.close()
        else:
            self.pid = pid

    def kill(self) -> None:
        """End it whatever it does."""
        if self.process.fd >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self.process.fd, signal.SIGKILL)

    def close(self) -> None:
        """Give the descriptors back."""
        self.child.close()
        self.process.close()
        self.channel.close()


def reap(process: Descriptor) -> None:
    """Take note of the end of a process that is at its end, and give its pidfd back.

    Nothing if it is nobody's child here, or somebody has taken note already.
    """
    if process.fd >= 0:
        with contextlib.suppress(OSError):
            # Of posix: in a program that gevent has patched, those of os are a hub's.
            posix.waitid(posix.P_PIDFD, process.fd, posix.WEXITED)
    process.close()


def start(python: str, memory_fd: int, listeners: Sequence[_socket.socket]) -> Started:
    """Start it; OSError where that is not allowed. To be called by `held.open`."""
    with contextlib.ExitStack() as stack:
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        stack.callback(theirs.close)
        failed = stack.enter_context(contextlib.ExitStack())
        failed.callback(ours.close)
        host = os.pidfd_open(os.getpid())
        stack.callback(os.close, host)
        wanted = [theirs.fileno(), host, memory_fd, *(each.fileno() for each in listeners)]
        child = posix.posix_spawn(
            python,
            _arguments(python, len(listeners)),
            {name: os.environ[name] for name in _FROM_THE_ENVIRONMENT if name in os.environ},
            file_actions=_moved(wanted, stack),
            setsid=True,
            setsigmask=(),
            setsigdef=_SIGNALS,
        )
        ours.setblocking(False)
        started = Started(ours, Descriptor(os.pidfd_open(child)))
        failed.pop_all()
        return started


def refuse_where_impossible() -> None:
    """BadOption where the kernel or a sandbox has none of what this needs."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        why = (
            f"pidfd_open(2) is refused ({error}): it needs Linux 5.4, and a sandbox that allows it"
        )
        raise BadOption("apart", True, why) from error


def _arguments(python: str, listeners: int) -> list[str]:
    # Isolated, no site, UTF-8 whatever the locale: no variable and no file of users has a say.
    options = ["-I", "-S", "-X", "utf8"]
    if sys.dont_write_bytecode:
        options.append("-B")
    if sys.pycache_prefix:
        options += ["-X", f"pycache_prefix={sys.pycache_prefix}"]
    place = os.path.abspath(__file__)  # noqa: PTH100 - no pathlib in the host
    for _ in "yaffle_health", "server", "spawn.py":
        place = os.path.dirname(place)  # noqa: PTH120
    tag = sys.implementation.cache_tag or ""
    # Last, for whoever reads `ps`.
    whose = f"yaffle-health of {os.getpid()}"
    return [python, *options, "-c", _PROGRAM, tag, place, str(listeners), whose]


def _moved(wanted: Sequence[int], stack: contextlib.ExitStack) -> list[tuple[int, ...]]:
    """Put each at its number: from copies that are above all of those, lest one overwrite another."""
    above = CHANNEL_FD + len(wanted)
    actions: list[tuple[object, ...]] = [
        (posix.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
        (posix.POSIX_SPAWN_DUP2, 0, 1),
    ]
    for target, fd in enumerate(wanted, CHANNEL_FD):
        copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above)
        stack.callback(os.close, copy)
        actions.append((posix.POSIX_SPAWN_DUP2, copy, target))
    return actions  # type: ignore[return-value]
