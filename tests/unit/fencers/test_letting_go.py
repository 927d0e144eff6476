"""A fence agent's runner that ends in the very moment in which it is killed for not ending."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress

import pytest

from yaffle.integrations.bounded_program import _let_go
from yaffle.integrations.process_tree import started, stat

WITHOUT_PIPES = "import os, time; os.close(0); os.close(1); time.sleep(600)"
BOUND_S = 60


async def _given_up(turns: int) -> None:
    """Give up on a runner that has just ended, so many turns of the loop later."""
    loop = asyncio.get_running_loop()
    runner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", WITHOUT_PIPES),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert runner.stdout is not None
    assert await runner.stdout.read() == b""
    letting_go = asyncio.create_task(_let_go(runner, started(runner.pid)))
    await asyncio.sleep(0)

    def give_up(left: int) -> None:
        if left == 0:
            letting_go.cancel()
        else:
            loop.call_soon(give_up, left - 1)

    loop.call_soon(give_up, turns)
    os.kill(runner.pid, signal.SIGKILL)
    while stat(runner.pid)[:1] not in ([], ["Z"]):
        # A thread sees it end; the loop, which stands still here, hears of it in its next turn.
        pass
    time.sleep(0.02)
    await asyncio.wait_for(asyncio.shield(letting_go), BOUND_S)


@pytest.mark.parametrize("turns", range(8))
def test_who_ends_while_it_is_killed_is_no_error(turns: int) -> None:
    with suppress(asyncio.CancelledError):
        asyncio.run(_given_up(turns))
