"""What the host tells its helper: the health of each group, written when there is news, and a heartbeat.

A manager says by giving another object (`Manager.every_group`) that there is news; only what is new
in it is written anew. A function that gives a health is asked for the groups that everybody knows,
each time.
"""

from __future__ import annotations

import marshal
import time
from collections.abc import Callable, Iterable
from typing import Final

from yaffle_health import judge
from yaffle_health.apart.memory import DOCUMENT_MAX, Writer
from yaffle_health.apart.plain import UNTOLD, Row, Settings, Told, plain, row_of, speaker_of
from yaffle_health.errors import UnknownGroup
from yaffle_health.groups import STANDARD
from yaffle_health.http import Options
from yaffle_health.http.answer import HealthOf
from yaffle_health.manager import OVERFLOW, Manager
from yaffle_health.model import Health
from yaffle_health.overall import overall
from yaffle_health.seen import EveryGroup
from yaffle_health.views import shown

GROUPS_MAX: Final = 64
"""How many groups a function is asked for at most."""


class Published:
    """The health of this process in a memory that a helper reads."""

    def __init__(
        self,
        health_of: HealthOf,
        memory: Writer,
        settings: Settings,
        complain: Callable[[Exception], None],
    ) -> None:
        """`complain` is told when asking for the health begins to go wrong."""
        self._memory, self._settings, self._complain = memory, settings, complain
        self._failed = False
        manager = _manager_of(health_of)
        if manager is None:
            self._source: _OfManager | _OfFunction = _OfFunction(health_of, settings[4])
        else:
            self._source = _OfManager(manager)

    def refresh(self) -> None:
        """Write what is new, if anything is, and give a sign of life; never raises."""
        try:
            news = self._source.news()
            if news is not None:
                self._write(*news)
            self._memory.beat(time.monotonic_ns())
        except Exception as error:  # noqa: BLE001 - no memory, or a defect: the helper will tell of the silence
            self._source.forget()
            if self._memory.fd >= 0:  # otherwise the endpoint was closed meanwhile
                self._note(error)
            return
        self._note(self._source.failure)

    def _write(self, told: Told, known: Iterable[str]) -> None:
        document = marshal.dumps((self._settings, told, tuple(known)))
        if len(document) > DOCUMENT_MAX:
            document = marshal.dumps(
                (self._settings, _too_large(told, len(document)), tuple(known))
            )
        self._memory.write(document)

    def _note(self, failure: Exception | None) -> None:
        if failure is not None and not self._failed:
            self._complain(failure)
        self._failed = failure is not None


class _OfManager:
    """Asks a manager."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._last: EveryGroup | None = None
        self._rows: dict[int, tuple[judge.Row, float, Row]] = {}
        self.failure: Exception | None = None

    def news(self) -> tuple[Told, Iterable[str]] | None:
        """Every group's health, if anything about the process is new."""
        every = self._manager.every_group(self._last)
        if every is self._last:
            return None
        now, groups = every.now, every.rows
        # 0 unless the manager has a clock of its own; what lies between two lines here is not one.
        shift_s = round(time.monotonic() - now, 2)
        speaker = speaker_of(self._manager.service)
        written, self._rows = self._rows, {}
        told: Told = {}
        for group, rows in groups.items():
            checks = [row.check for row in rows]
            left = [left_s for row in rows if (left_s := row.left_s(now)) is not None]
            told[group] = (
                str(overall(checks).value),
                speaker,
                tuple([self._written(row, shift_s, written) for row in rows]),
                min(left) + now + shift_s if left else None,
            )
        self._last = every
        return told, sorted(group for group in groups if group is not None)

    def _written(
        self, row: judge.Row, shift_s: float, before: dict[int, tuple[judge.Row, float, Row]]
    ) -> Row:
        """A row as it is written; the same object as before if it is what it was."""
        # By identity: the row is kept, so that nothing else comes to be there.
        known = self._rows.get(id(row)) or before.get(id(row))
        if known is None or known[0] is not row or known[1] != shift_s:
            known = (row, shift_s, row_of(row.check, row.at + shift_s))
        self._rows[id(row)] = known
        return known[2]

    def forget(self) -> None:
        """Let everything be news."""
        self._last = None


class _OfFunction:
    """Asks a function of a group's name."""

    def __init__(self, health_of: HealthOf, group: str | None) -> None:
        self._health_of = health_of
        self._groups: dict[str | None, None] = dict.fromkeys((None, *sorted(STANDARD)))
        if group is not None:
            self._groups[group] = None
        self._last: object = None
        self.failure: Exception | None = None

    def news(self) -> tuple[Told, Iterable[str]] | None:
        """Every group's health, if one of them shows anything else."""
        told: Told = {}
        showing: dict[str | None, object] = {}
        rows: dict[Row, Row] = {}
        self.failure = None
        for group in list(self._groups):
            try:
                health = self._health_of(group)
                told[group] = plain(health, time.monotonic(), rows)
                showing[group] = (shown(health), _expiry(health))
            except UnknownGroup as error:
                self._learn(error.known)
            except Exception as error:  # noqa: BLE001 - the host's code: a probe is answered with 500
                self.failure = error
                told[group] = showing[group] = UNTOLD
        if showing == self._last:
            return None
        self._last = showing
        return told, sorted(group for group in told if group is not None)

    def forget(self) -> None:
        """Let everything be news."""
        self._last = None

    def _learn(self, known: Iterable[str]) -> None:
        for group in known:
            if len(self._groups) < GROUPS_MAX:
                self._groups.setdefault(group)


def _expiry(health: Health) -> int | None:
    left_s = health.next_expiry_s
    return None if left_s is None else int(time.monotonic() + left_s)


def _manager_of(health_of: HealthOf) -> Manager | None:
    manager = getattr(health_of, "__self__", None)
    return manager if isinstance(manager, Manager) and health_of == manager.health else None


def _too_large(told: Told, size: int) -> Told:
    """In the place of more than there is room for: a failure that says so."""
    output = f"what is to be shown has {size} bytes, {DOCUMENT_MAX} at most can be shown apart"
    now = time.monotonic()
    row = ("fail", time.time(), now, OVERFLOW, None, "component", output, False, "fail")
    return {
        group: UNTOLD if isinstance(each, bool) else ("fail", each[1], (row,), None)
        for group, each in told.items()
    }


def settings_of(
    options: Options,
    *,
    connections_max: int,
    timeout_s: float,
    silent_max_s: float,
    shared: Iterable[bool],
) -> Settings:
    """What the helper needs to know beside the health."""
    return (
        options.ttl_s,
        options.cache_control,
        options.cache_cap,
        str(options.format.value),
        options.group,
        connections_max,
        timeout_s,
        silent_max_s,
        tuple(shared),
    )
