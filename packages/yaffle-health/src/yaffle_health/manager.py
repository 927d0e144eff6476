"""The memory of a process's health: who said what when, and what that means at the moment of asking.

Functions write into sources (source.py) on their way out; a person's code calls `report`. Nothing is
judged until somebody asks: `health()` copies under the lock and judges outside it.

Ages are told by the monotonic clock, so that a step of the wall clock neither expires an item nor
keeps a dead one alive; `time` is the wall clock's, for people.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from yaffle_health import identity, redact
from yaffle_health.errors import BadOption
from yaffle_health.groups import Declaration, Groups
from yaffle_health.judge import Item, Judgement, judge
from yaffle_health.locks import NativeRLock
from yaffle_health.model import Health, Service, Status
from yaffle_health.overall import overall
from yaffle_health.source import FORGOTTEN, Event, Source

TTL_S: Final = 300.0
ITEMS_MAX: Final = 1000
NAME_CHARS_MAX: Final = 128
# The item that says that there are too many items.
OVERFLOW: Final = "health_items"

Key = tuple[str, str | None]


class Manager:
    """The health of one process, in memory; every method may be called from every thread.

    A child of `os.fork` starts with an empty memory and a lock of its own: what its parent's
    connections felt like says nothing about its own.
    """

    def __init__(  # noqa: PLR0913  one keyword for each thing a service may say about itself
        self,
        *,
        service_id: str | None = None,
        description: str | None = None,
        host: str | None = None,
        hostname: str | None = None,
        release: str | None = None,
        ttl_s: float = TTL_S,
        names: Iterable[str] | None = None,
        groups: Mapping[str, Iterable[str]] | None = None,
        error_messages: bool = True,
        items_max: int = ITEMS_MAX,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`ttl_s`: how long a report is believed, 0 for ever.

        `names` closes the set of item names: any other is an error. `groups` fixes groups to item
        names (see groups.py). With `error_messages` False an error shows its class name alone.
        """
        self.ttl_s = seconds("ttl", ttl_s)
        self.error_messages = error_messages
        self._said = {
            "service_id": service_id,
            "description": description,
            "host": host,
            "hostname": hostname,
            "release": release,
        }
        self._service: Service | None = None
        self._names = None if names is None else frozenset(names)
        self._groups = Groups(groups)
        self._items_max = items_max
        self._now, self._wall = clock, wall_clock
        self._lock = NativeRLock()
        self._sources: dict[tuple[str, str | None, str | None], Source] = {}
        self._keys: dict[Key, int] = {}
        self._declared: dict[Key, Declaration] = {}
        self._since = (clock(), wall_clock())
        self._forget_before: float | None = None
        _managers.add(self)

    # --- Writing ---------------------------------------------------------------------------------

    def report(
        self,
        name: str,
        status: Status | str,
        output: str | None = None,
        *,
        component_id: str | None = None,
        component_type: str = "component",
        ttl_s: float | None = None,
    ) -> None:
        """Record how an item is now. `output` says why, for warn and fail; it is cleaned.

        BadOption for a status, name or time to live that cannot be meant.
        """
        word = _status(status)
        source = self.source(name, component_id, component_type=component_type, ttl_s=ttl_s)
        if word is Status.PASS:
            source.passed_at = self._now()
        else:
            self.record(source, word, output or "no reason was given")

    def passed(
        self, name: str, *, component_id: str | None = None, ttl_s: float | None = None
    ) -> None:
        """Record that an item is well now."""
        self.report(name, Status.PASS, component_id=component_id, ttl_s=ttl_s)

    def record(self, source: Source, status: Status, output: str) -> None:
        """Record a warning or a failure through a source; the output is cleaned when it is read."""
        with self._lock:
            source.record(Event(self._now(), self._wall(), status, output[: redact.KEPT_CHARS_MAX]))

    def failed(self, source: Source, error: BaseException) -> None:
        """Record an error as the failure of its source."""
        text = redact.told(error, message=self.error_messages)
        self.record(source, Status.FAIL, text)

    def source(
        self,
        name: str,
        component_id: str | None = None,
        *,
        component_type: str = "component",
        ttl_s: float | None = None,
        origin: str | None = None,
    ) -> Source:
        """The slot for an item's reports; the same one for the same item, until it is forgotten.

        `origin` asks for a slot of the caller's own, whose failures only it can take back.
        """
        key = (name, component_id, origin)
        found = self._sources.get(key)
        if found is None:
            found = self._make(key, component_type)
        if ttl_s is not None:
            found.ttl_s = seconds("ttl", ttl_s)
        return found

    def _make(self, key: tuple[str, str | None, str | None], component_type: str) -> Source:
        name, component_id, origin = key
        self._check_name(name, component_id)
        with self._lock:
            item = (name, component_id)
            if item not in self._keys and len(self._keys) >= self._items_max:
                return self._overflow(name)
            made = self._sources.get(key)
            if made is None:
                made = Source(
                    self, self._now, component_type=component_type, sticky=origin is not None
                )
                self._sources[key] = made
                self._keys[item] = self._keys.get(item, 0) + 1
            return made

    def _overflow(self, name: str) -> Source:
        """Say that an item found no room, and give its writer a slot that nobody reads."""
        key = (OVERFLOW, None, None)
        if key not in self._sources:
            self._sources[key] = Source(self, self._now, component_type="component", sticky=False)
            self._keys[(OVERFLOW, None)] = 1
        text = f"there are {self._items_max} items already: {name!r} and others are not kept"
        self.record(self._sources[key], Status.WARN, text)
        return Source(FORGOTTEN, self._now, component_type="component", sticky=False)

    # --- Declaring -------------------------------------------------------------------------------

    def register(
        self,
        name: str,
        *,
        component_id: str | None = None,
        groups: Iterable[str] = (),
        ttl_s: float | None = None,
        fail_after_s: float | None = None,
    ) -> None:
        """Declare an item before it reports: the groups it is in beside `ready`, its time to live.

        An item declared to `ready` or `start` counts as failing in that group until it has been
        heard once. `fail_after_s` makes its silence a failure: a heart that stopped.
        """
        self._check_name(name, component_id)
        declaration = Declaration(
            name=name,
            component_id=component_id,
            groups=frozenset(groups),
            ttl_s=None if ttl_s is None else seconds("ttl", ttl_s),
            fail_after_s=None if fail_after_s is None else seconds("fail_after_s", fail_after_s),
        )
        with self._lock:
            self._groups.learn(declaration.groups)
            self._declared[(name, component_id)] = declaration

    def unregister(self, name: str, *, component_id: str | None = None) -> None:
        """Forget an item: what it said, and what was declared about it."""
        with self._lock:
            self._declared.pop((name, component_id), None)
            self._drop([key for key in self._sources if key[:2] == (name, component_id)])

    # --- Forgetting ------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget what every item said, as after a restart; declarations stay."""
        with self._lock:
            self._forget_before = None
            self._since = (self._now(), self._wall())
            self._sources, dropped = {}, self._sources
            self._keys = {}
            for source in dropped.values():
                source.owner = FORGOTTEN

    def reset_soon(self) -> None:
        """Let nothing count that was said before now: one store, for signal handlers."""
        self._forget_before = self._now()

    def _drop(self, keys: Iterable[tuple[str, str | None, str | None]]) -> None:
        for key in keys:
            # The writer sees that its slot has no owner any more, and asks for another.
            self._sources.pop(key).owner = FORGOTTEN
            left = self._keys[key[:2]] - 1
            if left:
                self._keys[key[:2]] = left
            else:
                del self._keys[key[:2]]

    def _forget_what_was_before(self) -> None:
        asked, self._forget_before = self._forget_before, None
        if asked is None:
            return
        self._since = (asked, self._wall() - (self._now() - asked))
        for source in self._sources.values():
            source.forget_before(asked)
        self._drop([key for key, source in self._sources.items() if source.is_empty])

    def start_afresh_after_fork(self) -> None:
        """Be a new process's memory; called in the child of a fork, before any other code of it."""
        self._lock = NativeRLock()
        self._service = None
        self.reset()

    # --- Reading ---------------------------------------------------------------------------------

    @property
    def service(self) -> Service:
        """Who speaks; what was not said is worked out once in each process."""
        with self._lock:
            if self._service is None:
                self._service = identity.service(**self._said)
            return self._service

    @property
    def groups(self) -> frozenset[str]:
        """The names of all groups there are."""
        return self._groups.known

    def health(self, group: str | None = None) -> Health:
        """How the process is now, or one group of its checks; UnknownGroup if there is none such."""
        self._groups.demand(group)
        with self._lock:
            self._forget_what_was_before()
            now, wall = self._now(), self._wall()
            items = self._items(now, wall)
            declared, since = list(self._declared.values()), self._since
        judged = judge(
            items,
            declared,
            Judgement(now=now, ttl_s=self.ttl_s, since=since, group=group, groups=self._groups),
        )
        return Health(
            status=overall([row.check for row in judged]),
            service=self.service,
            checks=tuple(row.check for row in judged),
            next_expiry_s=min(
                (row.left_s for row in judged if row.left_s is not None), default=None
            ),
        )

    def _items(self, now: float, wall: float) -> list[Item]:
        """Everything that was said, copied. The caller holds the lock."""
        found: dict[Key, Item] = {}
        for (name, component_id, _), source in self._sources.items():
            moment = source.last(now, wall)
            if moment is not None:
                item = found.setdefault((name, component_id), Item(name, component_id, []))
                item.said.append((source, moment))
        return list(found.values())

    def _check_name(self, name: str, component_id: str | None) -> None:
        if self._names is not None and name not in self._names:
            known = ", ".join(sorted(self._names))
            raise BadOption("name", name, f"the names of this service's checks are: {known}")
        printable("name", name)
        if component_id is not None:
            printable("component_id", component_id)


def _status(word: Status | str) -> Status:
    if isinstance(word, Status):
        return word
    try:
        return Status.parse(word)
    except (AttributeError, ValueError) as error:
        raise BadOption("status", word, "use pass, warn or fail") from error


def printable(option: str, text: str) -> str:
    """Check a name that will be shown; BadOption if it is no printable text or is too long."""
    if not isinstance(text, str) or not text or not text.isprintable():
        raise BadOption(option, text, "use printable characters, at least one")
    if len(text) > NAME_CHARS_MAX:
        raise BadOption(option, text, f"it has more than {NAME_CHARS_MAX} characters")
    return text


def seconds(option: str, value: float) -> float:
    """Check a time to live, in seconds; BadOption if it is negative or no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadOption(option, value, "give a number of seconds; 0 means for ever")
    if not 0 <= value < float("inf"):
        raise BadOption(option, value, "it may not be negative; 0 means for ever")
    return float(value)


_managers: weakref.WeakSet[Manager] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for manager in list(_managers):
        manager.start_afresh_after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
