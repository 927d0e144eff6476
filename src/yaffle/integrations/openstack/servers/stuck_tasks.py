"""Tasks of Nova's that move no more: nobody works on them, and nothing that waits for them ever ends.

Nova writes down what it is about to do to a server (`task_state`) before it tells the host. Where
its database goes away in that moment, or a nova-compute loses the message, the word stays for ever.

How long it has stood is measured by our own looks and our own steady clock. Nova stamps each change
by the clock of whichever conductor wrote it, and an API that is ahead of that one would make the
task of a moment ago look old; here the stamp only says that it is the same task as last time. So an
engine that starts begins to count anew: it is late, never wrong. One gap between two looks counts
for a quarter of the bound at most, for while Nova cannot be read nothing moves there either.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.integrations.openstack.servers.status_mapping import HARMLESS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.integrations.openstack.servers.documents import Listed
    from yaffle.ports.clock import Clock

QUICK_S: Final = 600.0
LONG_S: Final = 3600.0
AT_WORK: Final = 24
"""So many times longer a task may take while Nova's record says that a host is at it."""
AT_FIRST_BUILD: Final = 2
"""The same for a server that never ran: a host that was cut off in the middle never ends its build, or
says so, and nothing is lost with it."""
AT_DELETION: Final = 3
"""The same for a deletion: asked for once more it waits for its turn on the host, behind one that is at
work there after all, so that nothing is lost by asking."""
LOOKS: Final = 4
"""Gaps between looks that it takes at least until a task counts as stuck."""
KEPT: Final = 20_000
_LOST: Final = frozenset({"DOWN", "UNKNOWN"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The meaning of a word of `task_state`."""

    long: bool = False
    """By nature: disks and memory are copied."""
    ends: str = ""
    """The act by which somebody wants the guest not to run; empty where it is to run in the end."""
    endless: bool = False
    """However long it takes: that says nothing."""
    again: bool = False
    """Nova stamps it anew whenever somebody asks for the same once more, and does nothing else."""
    unwritten: bool = False
    """No host has it yet, and Nova may tell the time of our question as that of its last change."""


def _of(words: str, task: Task) -> dict[str, Task]:
    return dict.fromkeys(words.split(), task)


TASKS: Final[Mapping[str, Task]] = MappingProxyType(
    {
        **_of("deleting soft-deleting", Task(ends="delete", again=True)),
        **_of("powering-off", Task(ends="stop")),
        **_of("pausing", Task(ends="pause")),
        **_of("suspending", Task(long=True, ends="suspend")),
        **_of("rescuing", Task(long=True, ends="rescue")),
        **_of(
            "shelving shelving_image_pending_upload shelving_image_uploading shelving_offloading",
            Task(long=True, ends="shelve"),
        ),
        **_of("powering-on unpausing unrescuing restoring", Task()),
        **_of("rebooting reboot_pending reboot_started", Task()),
        **_of("rebooting_hard reboot_pending_hard reboot_started_hard", Task()),
        # Where the message is lost that a host is to be found, it is so for ever; found it is at once.
        **_of("scheduling", Task(unwritten=True)),
        **_of("block_device_mapping networking spawning", Task(long=True)),
        **_of("rebuilding rebuild_block_device_mapping rebuild_spawning", Task(long=True)),
        **_of("resize_prep resize_migrating resize_migrated resize_finish", Task(long=True)),
        **_of("resize_reverting resize_confirming", Task(long=True)),
        **_of("resuming unshelving", Task(long=True)),
        # The guest runs on, for hours if need be, and Nova's record of the act ends at its beginning.
        **_of("migrating updating_password", Task(endless=True)),
    }
)
BUILDING: Final = Task(long=True)
"""Also while a build has no word."""
UNKNOWN: Final = Task(endless=True)
"""A word of another release of Nova's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The times for which a task may stand still."""

    quick_s: float = QUICK_S
    long_s: float = LONG_S

    def of(self, task: Task) -> float:
        """Return the bound of one."""
        return self.long_s if task.long else self.quick_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """A task that has stood for longer than its bound."""

    why: str
    """For a person; the same at every look, so that nothing is written down anew."""
    may_work: bool
    """Long by nature, or the wiping of a disk: Nova's record is asked first whether a host is at it."""
    patient: bool
    """A host that has begun it is still believed to be at it; it may have died over it since."""


@dataclass(frozen=True, slots=True)
class _Sight:
    token: tuple[str, str, str]
    stood_s: float
    at_s: float


def task_of(server: Listed) -> Task | None:
    """Return what is being done to a server that others have to wait for; None: nothing."""
    if server.task_state is not None and server.task_state not in HARMLESS:
        return TASKS.get(server.task_state, UNKNOWN)
    return BUILDING if server.status == "BUILD" else None


class Tasks:
    """The tasks seen of every server; shared by all threads of a driver."""

    def __init__(self, clock: Clock, bounds: Bounds) -> None:
        self._clock = clock
        self._bounds = bounds
        self._seen: OrderedDict[str, _Sight] = OrderedDict()
        self._lock = threading.Lock()

    def stuck(self, server: Listed) -> Stuck | None:
        """Note how a server is read now; say whether its task moves no more."""
        task = task_of(server)
        # The host that would have to do it is away: that is another failure, with its own proof.
        if task is None or task.endless or server.host_status in _LOST:
            with self._lock:
                self._seen.pop(server.id, None)
            return None
        bound_s = self._bounds.of(task)
        stood_s = self._stood(server, task, bound_s)
        if stood_s < bound_s:
            return None
        word = server.task_state or server.status.lower()
        return Stuck(
            why=f"Nova's task {word} has not moved for more than {_time(bound_s)}"
            + (f", since {stamp}" if (stamp := _stamp(server, task)) else ""),
            may_work=task.long or task.again,
            patient=stood_s < bound_s * _patience(server, task),
        )

    def forget(self, ident: str) -> None:
        """Count anew: Nova has just been asked for something that begins a task."""
        with self._lock:
            self._seen.pop(ident, None)

    def _stood(self, server: Listed, task: Task, bound_s: float) -> float:
        """Return for how long it has stood, by what this process has seen of it."""
        token = (server.status, server.task_state or "", _stamp(server, task))
        with self._lock:
            now_s = self._clock.monotonic_s()
            before = self._seen.get(server.id)
            stood_s = 0.0
            if before is not None and before.token == token:
                stood_s = before.stood_s + min(now_s - before.at_s, bound_s / LOOKS)
            self._seen[server.id] = _Sight(token, stood_s, now_s)
            self._seen.move_to_end(server.id)
            while len(self._seen) > KEPT:
                self._seen.popitem(last=False)
        return stood_s


def _stamp(server: Listed, task: Task) -> str:
    """Return when its task has moved last by Nova's word; empty where that says nothing."""
    return "" if task.again or task.unwritten else server.updated


def _patience(server: Listed, task: Task) -> int:
    """Return how many bounds a host that is said to be at it is given."""
    if server.status == "BUILD" and not server.launched_at:
        return AT_FIRST_BUILD
    return AT_DELETION if task.again else AT_WORK


def _time(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
