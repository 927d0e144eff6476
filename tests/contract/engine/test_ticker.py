"""Bells ring for what other processes wrote, and for nothing else: a ring for nothing is a write more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from sqlalchemy import Connection

from yaffle.engine.runtime.change_poller import ChangePoller
from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.context import Signals
from yaffle.model.ids import ActionId
from yaffle.store import actions, events
from yaffle.store.database import Store, open_store

if TYPE_CHECKING:
    from yaffle.engine.runtime.context import EngineContext

ACTION = {
    "id": "a" * 36,
    "name": "check",
    "action": "NODE_CHECK",
    "target": "n" * 36,
    "status": actions.READY,
    "created_us": 1,
}


def ready(conn: Connection) -> None:
    actions.add(conn, ACTION)


def put_off(conn: Connection) -> None:
    actions.add(conn, {**ACTION, "lease_us": SystemClock().now_us() + 60_000_000})


def event(conn: Connection) -> None:
    events.append(conn, events.Subject(otype="NODE", oid="n"), at_us=1)


def news(conn: Connection) -> None:
    notice = ("log", "yaffle.incident", {"incident": "i"})
    events.append(conn, events.Subject(otype="NODE", oid="n"), at_us=1, notify=[notice])


def nothing(conn: Connection) -> None:
    """As a renewed lease: a commit that nobody has to know of."""


async def rung(signals: Signals) -> set[str]:
    """Return the bells that ring, and silence them."""
    bells = {"actions": signals.actions, "outbox": signals.outbox, "clusters": signals.clusters}
    return {name for name, bell in bells.items() if await bell.wait(0)}


async def after(
    ours: Store, others: Store, works: tuple[Callable[[Connection], None], ...]
) -> set[str]:
    """Return what rings within two looks after others wrote."""
    signals = Signals()
    ctx = SimpleNamespace(store=ours, clock=SystemClock(), signals=signals)
    ticker = ChangePoller(cast("EngineContext", ctx), pace_s=0.01)
    await ticker._look()
    await rung(signals)
    for work in works:
        await others.write(work)
    await ticker._look()
    found = await rung(signals)
    await ticker._look()
    assert await rung(signals) == set(), "rung twice for one thing"
    return found


@pytest.mark.parametrize(
    ("works", "bells"),
    [
        pytest.param((), set(), id="nobody-wrote"),
        pytest.param((nothing,), set(), id="a-lease-renewed"),
        pytest.param((ready,), {"actions"}, id="an-action"),
        pytest.param((put_off,), set(), id="an-action-put-off"),
        pytest.param((event,), {"clusters"}, id="an-event"),
        pytest.param((news,), {"clusters", "outbox"}, id="news"),
        pytest.param((nothing, ready, news), {"actions", "clusters", "outbox"}, id="all-at-once"),
    ],
)
def test_what_rings(
    works: tuple[Callable[[Connection], None], ...], bells: set[str], tmp_path: Path
) -> None:
    async def main() -> set[str]:
        url = f"sqlite:///{tmp_path / 'y.db'}"
        async with (
            open_store(url, clock=SystemClock()) as ours,
            open_store(url, clock=SystemClock(), with_engine_lock=False) as others,
        ):
            return await after(ours, others, works)

    assert asyncio.run(main()) == bells


def test_what_is_put_off_is_not_looked_for_before_its_time(tmp_path: Path) -> None:
    async def main() -> tuple[bool, bool]:
        url = f"sqlite:///{tmp_path / 'y.db'}"
        async with open_store(url, clock=SystemClock()) as store:
            await store.write(put_off)
            before = await store.read(actions.any_claimable)
            due = {"lease_us": 0}
            await store.write(lambda conn: actions.set_values(conn, ActionId("a" * 36), 1, **due))
            return before, await store.read(actions.any_claimable)

    assert asyncio.run(main()) == (False, True)
