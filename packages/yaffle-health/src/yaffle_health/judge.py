"""From what was said to what it means now: ages, expiry, silence, several voices on one item.

A verdict is kept with its item and serves again while its sources say nothing else, the rules are
the same, and the moment has not come at which it changes by itself.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from yaffle_health import redact
from yaffle_health.groups import AWAITED, Declaration, Groups
from yaffle_health.model import Check, Status
from yaffle_health.source import Moment, Source

Key = tuple[str, str | None]
FOREVER: Final = float("inf")
# A verdict is worked out again from this long before it changes: sums of floats are not exact, and
# only the comparison that the verdict itself makes decides.
_MARGIN_S: Final = 0.001
_RANK: Final = {Status.PASS: 0, Status.WARN: 1, Status.FAIL: 2}
_NO_GROUPS: Final[frozenset[str]] = frozenset()


class Row(NamedTuple):
    """One judged check, as old as it was at `at` and a second after.

    `lasts_s`: after how many seconds of age it expires or its silence becomes a failure, None if
    never or if that has happened. `until`: the monotonic moment from which it must be judged again.
    """

    check: Check
    at: float
    lasts_s: float | None
    until: float
    groups: frozenset[str]

    def left_s(self, now: float) -> float | None:
        """How long until it changes by itself."""
        return None if self.lasts_s is None else self.lasts_s - max(0.0, now - self.at)

    def aged(self, now: float) -> Check:
        """The check with its age."""
        check = self.check
        return Check(
            name=check.name,
            status=check.status,
            time=check.time,
            age_s=max(0.0, now - self.at),
            component_id=check.component_id,
            component_type=check.component_type,
            output=check.output,
            expired=check.expired,
            last_status=check.last_status,
        )


Said = tuple[Moment | None, ...]


class Rules(NamedTuple):
    """What all judgements depend on beside what was said; another object once any of it changes.

    `since` is when the memory began, by the monotonic and by the wall clock.
    """

    ttl_s: float
    since: tuple[float, float]
    groups: Groups
    declared: Mapping[Key, Declaration]

    def about(self, name: str, component_id: str | None) -> Declaration | None:
        """The declaration of that item, or the one for every component of its name."""
        return self.declared.get((name, component_id)) or self.declared.get((name, None))


class Item:
    """One item: its sources, and its last verdict with what that was made of."""

    __slots__ = ("_verdict", "component_id", "name", "sources")

    def __init__(self, name: str, component_id: str | None) -> None:
        self.name, self.component_id = name, component_id
        self.sources: tuple[Source, ...] = ()
        self._verdict: tuple[Said, Rules, Row] | None = None

    @property
    def rank(self) -> tuple[str, str]:
        """Its place among the checks."""
        return self.name, self.component_id or ""

    def feed(self, sources: tuple[Source, ...]) -> None:
        """Let these be its sources."""
        self.sources = sources
        for source in sources:
            source.alone = len(sources) == 1

    def found(self) -> Found:
        """What each of its sources said last."""
        return Found(self, self.sources, tuple([source.moment for source in self.sources]))

    def judged(
        self, sources: tuple[Source, ...], said: Said, rules: Rules, now: float
    ) -> Row | None:
        """Its check, None if nobody has said anything.

        Threads may judge at once: a verdict is kept with what it was made of, and serves for that.
        """
        known = self._verdict
        if known is not None and known[0] == said and known[1] is rules and now < known[2].until:
            return known[2]
        pairs = zip(sources, said, strict=True)
        voices = [(source, moment) for source, moment in pairs if moment is not None]
        if not voices:
            return None
        row = _row(self, voices, rules, now)
        self._verdict = (said, rules, row)
        return row


class Found(NamedTuple):
    """An item as a reader found it under the lock."""

    item: Item
    sources: tuple[Source, ...]
    said: Said


def judge(found: Iterable[Found], rules: Rules, group: str | None, now: float) -> list[Row]:
    """Every check of the group, the awaited ones included; sorted if the items are."""
    return judge_each(found, rules, (group,), now)[group]


def judge_each(
    found: Iterable[Found], rules: Rules, groups: Iterable[str | None], now: float
) -> dict[str | None, list[Row]]:
    """The same for several groups at one moment: an item is judged once, and its row is one object."""
    rows: dict[str | None, list[Row]] = {group: [] for group in groups}
    heard: set[Key] = set()
    for item, sources, said in found:
        row = item.judged(sources, said, rules, now)
        if row is None:
            continue
        heard |= {(item.name, item.component_id), (item.name, None)}
        for group, members in rows.items():
            if group is None or rules.groups.holds(group, item.name, row.groups):
                members.append(row)
    for group in AWAITED & rows.keys():
        rows[group] = _with_awaited(rows[group], rules, group, heard)
    return rows


def _with_awaited(rows: list[Row], rules: Rules, group: str, heard: set[Key]) -> list[Row]:
    awaited = [
        _awaited(each, rules.since)
        for key, each in list(rules.declared.items())
        if group in each.groups and key not in heard
    ]
    return sorted(rows + awaited, key=lambda row: (row.check.name, row.check.component_id or ""))


def _row(item: Item, voices: list[tuple[Source, Moment]], rules: Rules, now: float) -> Row:
    about = rules.about(item.name, item.component_id)
    default = rules.ttl_s if about is None or about.ttl_s is None else about.ttl_s
    silence = _silence(about)
    source, moment, ttl_s = _spokesman(voices, default, now)
    age_s = max(0.0, now - moment.at)
    expired = 0 < ttl_s < age_s
    status, output = moment.status, None
    lasts_s = ttl_s if ttl_s and not expired and status is not Status.FAIL else None
    until = _next_turn(voices, default, silence, now)
    overdue = [(limit_s, word) for limit_s, word in silence if age_s > limit_s]
    ahead = [limit_s for limit_s, _ in silence if age_s <= limit_s]
    if overdue and overdue[-1][1] is Status.FAIL:
        # A heart that stopped is known to have stopped: that does not become unknown with time.
        expired, status, lasts_s = False, Status.FAIL, None
        output, until = _quiet(age_s, overdue[-1][0]), now
    elif expired:
        status, output = Status.WARN, _stale(moment, ttl_s)
    elif overdue and status is not Status.FAIL:
        status, output, until = Status.WARN, _quiet(age_s, overdue[-1][0]), now
    else:
        output = _shown(moment)
    if ahead and not expired and status is not Status.FAIL:
        lasts_s = min([*ahead, lasts_s or ahead[0]])
    check = Check(
        name=item.name,
        status=status,
        time=moment.time,
        age_s=age_s,
        component_id=redact.identifier(item.component_id),
        component_type=source.component_type,
        output=output,
        expired=expired,
        last_status=moment.status,
    )
    return Row(check, moment.at, lasts_s, until, about.groups if about else _NO_GROUPS)


Silence = tuple[tuple[float, Status], ...]


def _silence(about: Declaration | None) -> Silence:
    """After how many seconds without a word it is what; the failure last."""
    if about is None:
        return ()
    limits = ((about.warn_after_s, Status.WARN), (about.fail_after_s, Status.FAIL))
    return tuple([(limit_s, status) for limit_s, status in limits if limit_s])


def _quiet(age_s: float, limit_s: float) -> str:
    return f"not heard of for {age_s:.1f} s, which is more than {limit_s:g} s"


def _next_turn(
    voices: list[tuple[Source, Moment]],
    default_ttl_s: float,
    silence: Silence,
    now: float,
) -> float:
    """The monotonic moment from which a verdict may be another although nobody says anything."""
    turns = []
    for source, moment in voices:
        ttl_s = default_ttl_s if source.ttl_s is None else source.ttl_s
        limits_s = [limit_s for limit_s, _ in silence]
        turns += [moment.at + after_s for after_s in (ttl_s, *limits_s) if after_s]
    return min([turn - _MARGIN_S for turn in turns if turn + _MARGIN_S > now], default=FOREVER)


def _spokesman(
    voices: list[tuple[Source, Moment]], default_ttl_s: float, now: float
) -> tuple[Source, Moment, float]:
    """Whose word counts where several functions feed one item.

    A live complaint of a sticky source counts until that source passes: the worst one, then the
    latest. Otherwise whoever spoke last, as the seed has it.
    """
    if len(voices) == 1:
        source, moment = voices[0]
        return source, moment, default_ttl_s if source.ttl_s is None else source.ttl_s
    best, best_rank = None, None
    for source, moment in voices:
        ttl_s = default_ttl_s if source.ttl_s is None else source.ttl_s
        live = not 0 < ttl_s < now - moment.at
        complaint = _RANK[moment.status] if source.sticky and live else 0
        rank = (complaint, moment.at)
        if best_rank is None or rank >= best_rank:
            best, best_rank = (source, moment, ttl_s), rank
    assert best is not None  # noqa: S101  an item is judged because somebody spoke
    return best


def _shown(moment: Moment) -> str | None:
    """What may be shown of its output: cleaned once, however often and however it is shown."""
    if moment.shown is None and moment.output is not None:
        moment.shown = redact.clean(moment.output)
    return moment.shown


def _stale(moment: Moment, ttl_s: float) -> str:
    """The words of a tombstone: since when nothing is known, and what was known last."""
    since = moment.time + dt.timedelta(seconds=ttl_s)
    text = f"stale since {since.isoformat(timespec='seconds')}; the last was {moment.status}"
    shown = _shown(moment)
    return redact.cut(f"{text}: {shown}") if shown else text


def _awaited(declared: Declaration, since: tuple[float, float]) -> Row:
    at, wall = since
    check = Check(
        name=declared.name,
        status=Status.FAIL,
        time=dt.datetime.fromtimestamp(wall, dt.UTC),
        age_s=0.0,
        component_id=redact.identifier(declared.component_id),
        output="nothing has been heard of it yet",
        last_status=Status.FAIL,
    )
    return Row(check, at, None, FOREVER, declared.groups)
