"""Entry of the child process: `python -m yaffle.prober FD PARENT_PID`; ends when the pipe closes."""

from __future__ import annotations

import gc
import os
import resource
import socket
import sys
from typing import Final

from yaffle.integrations.child_process import bind_to_parent
from yaffle.prober.loop import Loop
from yaffle.prober.service import Service

_FILES_MAX: Final = 65_536


def main(pipe_fd: int, parent_pid: int) -> None:
    """Serve the engine at the other end of `pipe_fd`."""
    if not bind_to_parent(parent_pid):
        return
    _raise_file_limit()
    # What is loaded by now stays; the collector need not look at it again and again.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    loop = Loop()
    service = Service(loop, socket.socket(fileno=pipe_fd))
    loop.run()
    del service


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _FILES_MAX if hard == resource.RLIM_INFINITY else min(_FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
    # Not sys.exit: a resolver thread may hang in the C library.
    os._exit(0)
