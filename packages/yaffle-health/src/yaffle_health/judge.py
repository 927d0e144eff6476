"""From what was said to what it means now: ages, expiry, silence, several voices on one item."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from yaffle_health import redact
from yaffle_health.groups import AWAITED, Declaration, Groups
from yaffle_health.model import Check, Status
from yaffle_health.source import Moment, Source

_RANK: Final = {Status.PASS: 0, Status.WARN: 1, Status.FAIL: 2}


class Item(NamedTuple):
    """One item with what each of its sources said last."""

    name: str
    component_id: str | None
    said: list[tuple[Source, Moment]]


class Row(NamedTuple):
    """One judged check; `left_s` until it expires, None if it never will or already has."""

    check: Check
    left_s: float | None


class Judgement(NamedTuple):
    """What a judgement depends on beside the items: the moment, the defaults, the group asked for.

    `since` is when the memory began, by the monotonic and by the wall clock.
    """

    now: float
    ttl_s: float
    since: tuple[float, float]
    group: str | None
    groups: Groups


def judge(items: Iterable[Item], declared: Sequence[Declaration], by: Judgement) -> list[Row]:
    """Every check of the group, sorted by name and component; the awaited ones included."""
    table = {(each.name, each.component_id): each for each in declared}
    rows, heard = [], set()
    for item in items:
        own = table.get((item.name, item.component_id))
        about = own or table.get((item.name, None))
        if by.group in AWAITED:
            heard |= {(item.name, item.component_id), (item.name, None)}
        if by.group is None or by.groups.holds(
            by.group, item.name, about.groups if about else frozenset()
        ):
            rows.append(_row(item, about, by))
    if by.group in AWAITED:
        rows += [
            _awaited(each, by)
            for key, each in table.items()
            if by.group in each.groups and key not in heard
        ]
    return sorted(rows, key=lambda row: (row.check.name, row.check.component_id or ""))


def _row(item: Item, about: Declaration | None, by: Judgement) -> Row:
    default = by.ttl_s if about is None or about.ttl_s is None else about.ttl_s
    fail_after_s = about.fail_after_s if about else None
    source, moment, ttl_s = _spokesman(item, default, by.now)
    age_s = max(0.0, by.now - moment.at)
    expired = 0 < ttl_s < age_s
    status, output = moment.status, moment.output
    left_s = ttl_s - age_s if ttl_s and not expired and status is not Status.FAIL else None
    if fail_after_s and age_s > fail_after_s:
        # A heart that stopped is known to have stopped: that does not become unknown with time.
        expired, status, left_s = False, Status.FAIL, None
        output = f"not heard of for {age_s:.1f} s, which is more than {fail_after_s:g} s"
    elif expired:
        status, output = Status.WARN, _stale(moment, ttl_s)
    elif fail_after_s and status is not Status.FAIL:
        left_s = min(fail_after_s - age_s, fail_after_s if left_s is None else left_s)
    check = Check(
        name=item.name,
        status=status,
        time=moment.time,
        age_s=age_s,
        component_id=item.component_id,
        component_type=source.component_type,
        output=None if status is Status.PASS else redact.clean(output or ""),
        expired=expired,
        last_status=moment.status,
    )
    return Row(check, left_s)


def _spokesman(item: Item, default_ttl_s: float, now: float) -> tuple[Source, Moment, float]:
    """Whose word counts where several functions feed one item.

    A live complaint of a sticky source counts until that source passes: the worst one, then the
    latest. Otherwise whoever spoke last, as the seed has it.
    """
    if len(item.said) == 1:
        source, moment = item.said[0]
        return source, moment, default_ttl_s if source.ttl_s is None else source.ttl_s
    best, best_rank = None, None
    for source, moment in item.said:
        ttl_s = default_ttl_s if source.ttl_s is None else source.ttl_s
        live = not 0 < ttl_s < now - moment.at
        complaint = _RANK[moment.status] if source.sticky and live else 0
        rank = (complaint, moment.at)
        if best_rank is None or rank >= best_rank:
            best, best_rank = (source, moment, ttl_s), rank
    assert best is not None  # noqa: S101  an item exists because somebody spoke
    return best


def _stale(moment: Moment, ttl_s: float) -> str:
    """The words of a tombstone: since when nothing is known, and what was known last."""
    since = moment.time + dt.timedelta(seconds=ttl_s)
    text = f"stale since {since.isoformat(timespec='seconds')}; the last was {moment.status}"
    return f"{text}: {moment.output}" if moment.output else text


def _awaited(declared: Declaration, by: Judgement) -> Row:
    at, wall = by.since
    check = Check(
        name=declared.name,
        status=Status.FAIL,
        time=dt.datetime.fromtimestamp(wall, dt.UTC),
        age_s=max(0.0, by.now - at),
        component_id=declared.component_id,
        output="nothing has been heard of it yet",
        last_status=Status.FAIL,
    )
    return Row(check, None)
