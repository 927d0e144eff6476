"""Entry of the API's process: `python -m yaffle.cli.serve.api_child PIPE SOCKET PARENT_PID`."""

from __future__ import annotations

import os
import pickle
import socket
import sys
from typing import TYPE_CHECKING, Final

from yaffle.cli.serve import link, logs, process
from yaffle.errors import ConfigError, YaffleError, leaves
from yaffle.integrations.child_process import bind_to_parent
from yaffle.prober.wire import LENGTH

if TYPE_CHECKING:
    from yaffle.config import Settings

BEGIN_S: Final = 30.0
"""For the engine to say its first word."""


def main(pipe_fd: int, sock_fd: int, parent_pid: int) -> None:
    """Answer requests on the socket until the engine at the other end of the pipe says stop or ends."""
    if not bind_to_parent(parent_pid):
        return
    pipe = socket.socket(fileno=pipe_fd)
    settings: Settings = pickle.loads(_begin(pipe).settings)  # noqa: S301 - by our own parent
    logs.configure(settings.log.level, settings.log.format)
    try:
        process.run_api(settings, pipe.dup(), socket.socket(fileno=sock_fd), engine_pid=parent_pid)
    except* YaffleError as errors:
        error = next(leaves(errors))
        pipe.settimeout(BEGIN_S)
        pipe.sendall(link.frame(link.Failed(str(error), isinstance(error, ConfigError))))


def _begin(pipe: socket.socket) -> link.Begin:
    pipe.settimeout(BEGIN_S)
    (length,) = LENGTH.unpack(_exactly(pipe, LENGTH.size))
    begin = link.to_api.decode(_exactly(pipe, length))
    assert isinstance(begin, link.Begin), begin  # noqa: S101 - narrows the type
    return begin


def _exactly(pipe: socket.socket, count: int) -> bytes:
    """Return so many bytes: what follows is for the loop."""
    data = b""
    while len(data) < count:
        more = pipe.recv(count - len(data))
        if not more:
            raise SystemExit("the engine ended before it began")
        data += more
    return data


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    # Not sys.exit: a resolver thread may hang in the C library.
    os._exit(0)
