"""What is heard of a node that is just about to be read is answered by that reading, and by no other."""

from __future__ import annotations

import asyncio

from tests.contract.lifecycle.stage import OFF, Backend
from tests.unit.lifecycle.test_watch import OFF_EVENT, world

from yaffle.testing.loop import run_virtual


def test_what_is_heard_between_the_choice_and_the_reading_wants_no_second_one() -> None:
    """A second one would say the same, and that nobody has told: the last word of a storm."""

    async def main() -> None:
        async with world(Backend()) as w:
            await asyncio.sleep(1)
            w.backend.states["s0"] = OFF
            choose = w.waker._batches

            def then_hear() -> object:
                chosen = choose()
                if chosen:
                    w.waker._batches = choose  # type: ignore[method-assign]
                    w.hear(OFF_EVENT, 0)
                return chosen

            w.waker._batches = then_hear  # type: ignore[assignment, method-assign]
            w.hear(OFF_EVENT, 0)
            await asyncio.sleep(1)
            assert w.backend.asked("s0") == 2
            assert w.seen.last(0).authoritative

    run_virtual(main)
