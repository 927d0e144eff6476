"""Notices that nobody watches the demo any more, when no signal says so.

A terminal that is closed tells only the leader of its session. Where that is `make`, it waits for us
to end, and we would go on for ever behind its back.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LOOK_MS: Final = 500
AGAIN_S: Final = 10.0
_GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL


@contextmanager
def watched() -> Iterator[None]:
    """Send ourselves SIGHUP once our terminal or our parent is gone, while the block lasts."""
    over = threading.Event()
    parent = os.getppid()
    terminals = [number for number in (0, 1, 2) if os.isatty(number)]

    def look() -> None:
        poll = select.poll()
        for number in terminals:
            # No event is asked for: that somebody hung up is told unasked.
            poll.register(number, 0)
        while not over.is_set():
            gone = any(events & _GONE for _, events in poll.poll(LOOK_MS))
            if gone or os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGHUP)
                # What a handler raises is lost where it strikes a finaliser: said again, and not so
                # soon that it would disturb the ending that the first word has begun.
                over.wait(AGAIN_S)

    thread = threading.Thread(target=look, name="audience", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(2 * LOOK_MS / 1000)
