"""Two processes write to one SQLite file: each gets its turn, however much the other has to write."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.contract.store.support import WallClock, child, url
from tests.waiting import wait_until

from yaffle.store import commit_sequence
from yaffle.store.database import open_store
from yaffle.store.turnstile import FILE, Turnstile

ROUNDS = 30
TURNS_MAX = 2
"""Of theirs between our wish and our turn: the one under way, and one that was at the entrance."""


def test_of_two_who_want_it_all_the_time_each_has_every_other_turn(tmp_path: Path) -> None:
    target = url(tmp_path / "y.db")
    asyncio.run(_made(target))
    ours = Turnstile(tmp_path / "y.db.lock", wait_s_max=60, now_s=WallClock().monotonic_s)
    theirs = tmp_path / "turns"
    waited = []
    with child("turns", target) as other:
        wait_until(theirs.exists, bool)
        for _ in range(ROUNDS):
            before = len(theirs.read_bytes())
            with ours.turn():
                waited.append(len(theirs.read_bytes()) - before)
            # They are at work when we come again, which is the hard case.
            wait_until(lambda: len(theirs.read_bytes()), lambda now, had=before: now > had + 1)
        assert other.poll() is None
    ours.close()
    assert sorted(waited)[-3] <= TURNS_MAX, waited


def test_the_store_waits_for_its_turn(tmp_path: Path) -> None:
    target = url(tmp_path / "y.db")

    async def write() -> int:
        async with open_store(target, clock=WallClock()) as store:
            with child("turn", target) as holder:
                writing = asyncio.create_task(store.write(commit_sequence.turn))
                assert not (await asyncio.wait([writing], timeout=0.5))[0]
                assert holder.stdin is not None
                holder.stdin.write("go\n")
                holder.stdin.flush()
                return await writing

    assert asyncio.run(write()) > 0


def test_a_turn_that_does_not_come_costs_fairness_and_not_the_write(tmp_path: Path) -> None:
    target = url(tmp_path / "y.db")

    async def write() -> int:
        async with open_store(target, clock=WallClock(), busy_timeout_s=0.5) as store:
            with child("turn", target) as holder:
                # It has the turn, stands still, and has not begun to write.
                holder.send_signal(signal.SIGSTOP)
                try:
                    return await store.write(commit_sequence.turn)
                finally:
                    holder.send_signal(signal.SIGCONT)

    assert asyncio.run(write()) > 0


def test_without_its_file_it_lets_everybody_through(tmp_path: Path) -> None:
    nowhere = Turnstile(tmp_path / "no" / "file", wait_s_max=60, now_s=WallClock().monotonic_s)
    with nowhere.turn():
        assert not nowhere._take(FILE, 0.0)
    nowhere.close()


async def _made(target: str) -> None:
    async with open_store(target, clock=WallClock()):
        pass
