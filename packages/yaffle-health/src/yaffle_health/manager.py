"""The memory of a process's health: who said what when, and what that means at the moment of asking.

Functions write into sources (source.py) on their way out; a person's code calls `report`. Nothing is
judged until somebody asks: `health()` copies under the lock and judges outside it. What was judged
is kept; who only wants to know whether there is anything new to be seen asks `seen()`.

Ages are told by the monotonic clock, so that a step of the wall clock neither expires an item nor
keeps a dead one alive; `time` is the wall clock's, for people.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from yaffle_health import identity, redact
from yaffle_health.forks import renew_in_children
from yaffle_health.groups import Declaration, Groups
from yaffle_health.judge import FOREVER, Found, Item, Key, Row, Rules, judge, judge_each
from yaffle_health.locks import NativeRLock
from yaffle_health.model import Health, Service, Status
from yaffle_health.options import listed, named, printable, seconds, status_of, text, texts, whole
from yaffle_health.overall import overall
from yaffle_health.seen import EveryGroup, Heard, Seen, serves
from yaffle_health.source import FORGOTTEN, Moment, Source

TTL_S: Final = 300.0
ITEMS_MAX: Final = 1000
# The item that says that there are too many items.
OVERFLOW: Final = "health_items"

SourceKey = tuple[str, str | None, str | None]


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
        self._ttl_s = seconds("ttl", ttl_s)
        whole("items_max", items_max, least=1)
        self.error_messages = error_messages
        self._said = {
            "service_id": text("service_id", service_id),
            "description": text("description", description),
            "host": text("host", host),
            "hostname": text("hostname", hostname),
            "release": text("release", release),
        }
        self._service: Service | None = None
        self._names = None if names is None else texts("names", names)
        self._groups = Groups(listed("groups", groups))
        self._items_max = items_max
        self._now, self._wall = clock, wall_clock
        self._lock = NativeRLock()
        self._sources: dict[SourceKey, Source] = {}
        self._items: dict[Key, Item] = {}
        self._declared: dict[Key, Declaration] = {}
        self._since = (clock(), wall_clock())
        self._forget_before: float | None = None
        self._seen: dict[str | None, Seen] = {}
        self._rules_changed()
        self._order: tuple[Rules, list[Item]] = (self._rules, [])
        renew_in_children(self)

    # --- Writing ---------------------------------------------------------------------------------

    def report(
        self,
        name: str,
        status: Status | str,
        output: str | BaseException | None = None,
        *,
        component_id: str | None = None,
        component_type: str = "component",
        ttl_s: float | None = None,
    ) -> None:
        """Record how an item is now. `output` says why, for warn and fail; it is cleaned.

        An error as `output` is told as a decorator tells it. BadOption for a status, name or time to
        live that cannot be meant, and nothing else: whoever reports a failure has one already.
        """
        word = status_of(status)
        source = self.source(name, component_id, component_type=component_type, ttl_s=ttl_s)
        if word is Status.PASS:
            source.passed_at = self._now()
        else:
            told = redact.words(output, messages=self.error_messages)
            self.record(source, word, told or "no reason was given")

    def passed(
        self, name: str, *, component_id: str | None = None, ttl_s: float | None = None
    ) -> None:
        """Record that an item is well now."""
        self.report(name, Status.PASS, component_id=component_id, ttl_s=ttl_s)

    def record(self, source: Source, status: Status, output: str) -> None:
        """Record a warning or a failure through a source; the output is cleaned when it is read."""
        with self._lock:
            text = output[: redact.KEPT_CHARS_MAX]
            source.record(Moment(self._now(), self._wall(), status, text))
            self._state = object()

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
        try:
            found = self._sources.get(key)
        except TypeError:  # no hash, hence no text
            named(name, component_id, self._names)
            raise
        if found is None:
            found = self._make(key, component_type)
        if ttl_s is not None and found.ttl_s != (wanted := seconds("ttl", ttl_s)):
            found.ttl_s = wanted
            self._rules_changed()
        return found

    def _make(self, key: SourceKey, component_type: str) -> Source:
        name, component_id, origin = key
        named(name, component_id, self._names)
        printable("component_type", component_type)
        with self._lock:
            if (name, component_id) not in self._items and len(self._items) >= self._items_max:
                return self._overflow(name)
            made = self._sources.get(key)
            if made is None:
                made = self._add(key, component_type, sticky=origin is not None)
            return made

    def _overflow(self, name: str) -> Source:
        """Say that an item found no room, and give its writer a slot that nobody reads."""
        key = (OVERFLOW, None, None)
        source = self._sources.get(key) or self._add(key, "component", sticky=False)
        text = f"there are {self._items_max} items already: {name!r} and others are not kept"
        self.record(source, Status.WARN, text)
        return Source(FORGOTTEN, self._now, component_type="component", sticky=False)

    def _add(self, key: SourceKey, component_type: str, *, sticky: bool) -> Source:
        made = Source(self, self._now, component_type=component_type, sticky=sticky)
        self._sources[key] = made
        item = self._items.setdefault(key[:2], Item(*key[:2]))
        item.feed((*item.sources, made))
        self._rules_changed()
        return made

    # --- Declaring -------------------------------------------------------------------------------

    def register(
        self,
        name: str,
        *,
        component_id: str | None = None,
        groups: Iterable[str] = (),
        ttl_s: float | None = None,
        fail_after_s: float | None = None,
        warn_after_s: float | None = None,
    ) -> None:
        """Declare an item before it reports: the groups it is in beside `ready`, its time to live.

        An item declared to `ready` or `start` counts as failing in that group until it has been
        heard once. `fail_after_s` makes its silence a failure, and `warn_after_s` a warning: a heart
        that stopped.
        """
        named(name, component_id, self._names)
        declaration = Declaration(
            name=name,
            component_id=component_id,
            groups=texts("groups", groups),
            ttl_s=None if ttl_s is None else seconds("ttl", ttl_s),
            fail_after_s=None if fail_after_s is None else seconds("fail_after_s", fail_after_s),
            warn_after_s=None if warn_after_s is None else seconds("warn_after_s", warn_after_s),
        )
        with self._lock:
            self._groups.learn(declaration.groups)
            self._declared[(name, component_id)] = declaration
            self._rules_changed()

    def unregister(self, name: str, *, component_id: str | None = None) -> None:
        """Forget an item: what it said, and what was declared about it."""
        with self._lock:
            self._declared.pop((name, component_id), None)
            self._drop([key for key in self._sources if key[:2] == (name, component_id)])
            self._rules_changed()

    # --- Forgetting ------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget what every item said, as after a restart; declarations stay."""
        with self._lock:
            self._forget_before = None
            self._since = (self._now(), self._wall())
            # Before they are let go, or a child that is forked in this moment has writers whose slots
            # say they are its own, and are read by nobody.
            _disown(self._sources)
            self._sources, self._items, dropped = {}, {}, self._sources
            # A signal's handler may have added one meanwhile.
            _disown(dropped)
            self._rules_changed()

    def reset_soon(self) -> None:
        """Let nothing count that was said before now: one store, for signal handlers."""
        self._forget_before = self._now()

    def _drop(self, keys: Iterable[SourceKey]) -> None:
        for key in keys:
            # The writer sees that its slot has no owner any more, and asks for another.
            dropped, item = self._sources[key], self._items[key[:2]]
            dropped.owner = FORGOTTEN
            item.feed(tuple(source for source in item.sources if source is not dropped))
            if not item.sources:
                del self._items[key[:2]]
            del self._sources[key]

    def _forget_what_was_before(self) -> None:
        asked, self._forget_before = self._forget_before, None
        if asked is None:
            return
        self._since = (asked, self._wall() - (self._now() - asked))
        for source in self._sources.values():
            source.forget_before(asked)
        self._drop([key for key, source in self._sources.items() if source.is_empty])
        self._rules_changed()

    def start_afresh_after_fork(self) -> None:
        """Be a new process's memory; called in the child of a fork, before any other code of it."""
        self._lock = NativeRLock()
        self._service = None
        self._seen = {}
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

    @property
    def ttl_s(self) -> float:
        """How long a report is believed that has no time of its own, 0 for ever."""
        return self._ttl_s

    @ttl_s.setter
    def ttl_s(self, wanted: float) -> None:
        self._ttl_s = seconds("ttl", wanted)
        self._rules_changed()

    def health(self, group: str | None = None) -> Health:
        """How the process is now, or one group of its checks; UnknownGroup if there is none such."""
        with self._lock:
            heard = self._hear(group)
            found = self._found(heard.rules)
        return self._told(judge(found, heard.rules, group, heard.now), heard.now)

    def seen(self, group: str | None = None) -> Health:
        """The same as `health`, and the same object for as long as nothing new is to be seen in it.

        What has expired, fallen silent or been reset until now is in it. Ages, `next_expiry_s` and
        the fractions of `time` are those of the moment at which it was made.
        """
        last = self._seen.get(group)
        # No lock for a look that finds nothing new: a busy thread may hold it.
        if last is not None and self._stands(last):
            return last.health
        with self._lock:
            heard = self._hear(group)
            last = self._seen.get(group)
            if last is not None and serves(last, heard.state, heard.rules, heard.now):
                return last.health
            found = self._found(heard.rules)
        rows = judge(found, heard.rules, group, heard.now)
        until = min([row.until for row in rows], default=FOREVER)
        health = self._told(rows, heard.now)
        self._seen[group] = Seen(heard.state, heard.rules, heard.sources, until, health)
        return health

    def every_group(self, last: EveryGroup | None = None) -> EveryGroup:
        """All rows of the whole and of each group; `last` itself if nothing new is to be seen.

        A row that is what it was is the same object as before.
        """
        if last is not None and self._stands(last):
            return last
        with self._lock:
            heard = self._hear(None)
            if last is not None and serves(last, heard.state, heard.rules, heard.now):
                return last
            found = self._found(heard.rules)
            groups = (None, *sorted(self._groups.known))
        rows = judge_each(found, heard.rules, groups, heard.now)
        until = min([row.until for row in rows[None]], default=FOREVER)
        return EveryGroup(heard.state, heard.rules, heard.sources, until, heard.now, rows)

    def _stands(self, last: Seen | EveryGroup) -> bool:
        """Whether nothing at all has happened since then."""
        if not serves(last, self._state, self._rules, self._now()):
            return False
        for source in last.sources:
            if source.passed_at is not source.heard:
                return False
        return self._forget_before is None

    def _hear(self, group: str | None) -> Heard:
        """Hear what was said. The caller holds the lock, as it does for all that follows."""
        self._groups.demand(group)
        self._forget_what_was_before()
        # First what a change replaces, then what it is about: a signal handler may report between
        # any two of these lines, and what was found before must not pass for what came after.
        rules = self._rules
        sources = tuple(self._sources.values())
        now = self._listen(sources)
        return Heard(now, self._state, rules, sources)

    def _found(self, rules: Rules) -> list[Found]:
        """Copy what was said about every item, in order."""
        if self._order[0] is not rules:
            items = sorted(self._items.values(), key=lambda item: item.rank)
            self._order = (rules, items)
        return [item.found() for item in self._order[1]]

    def _listen(self, sources: tuple[Source, ...]) -> float:
        """Hear of the passes, which were stored without a word; return the moment of listening."""
        now, wall = self._now(), self._wall()
        for source in sources:
            passed_at = source.passed_at
            if passed_at is not source.heard:
                if source.listen(passed_at, now, wall):
                    self._state = object()
                # Last: a reader without the lock believes the state as soon as this agrees.
                source.heard = passed_at
        return now

    def _told(self, rows: list[Row], now: float) -> Health:
        checks = tuple([row.aged(now) for row in rows])
        left = [left_s for row in rows if (left_s := row.left_s(now)) is not None]
        return Health(
            status=overall(checks),
            service=self.service,
            checks=checks,
            next_expiry_s=min(left, default=None),
        )

    def _rules_changed(self) -> None:
        """Let every verdict be made again."""
        self._rules = Rules(self._ttl_s, self._since, self._groups, self._declared)
        self._state = object()


def _disown(sources: Mapping[SourceKey, Source]) -> None:
    for source in list(sources.values()):
        source.owner = FORGOTTEN
