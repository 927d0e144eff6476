"""A suite in the background (`nohup`, `&`) is immune to SIGINT and SIGHUP; what it starts is not.

What is ignored stays ignored in every process that is started, and some tests interrupt one; what has a
handler has none in a new process.
"""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    for one in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(one) is signal.SIG_IGN:
            signal.signal(one, lambda *_: None)
