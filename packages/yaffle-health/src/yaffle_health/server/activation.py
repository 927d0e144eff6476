"""Sockets that systemd opened for us (sd_listen_fds(3)): taken as they are, never unlinked.

LISTEN_PID must be this process, LISTEN_FDS counts from descriptor 3, LISTEN_FDNAMES names them. The
variables stay, and so do descriptors of other names: the host may have use for them.
"""

from __future__ import annotations

import _socket
import errno
import os
from collections.abc import Mapping
from typing import Final

from yaffle_health.errors import BadOption, BindFailed
from yaffle_health.server.held import held
from yaffle_health.server.loop import Listener
from yaffle_health.uris import Address, Tcp, Unix

FIRST_FD: Final = 3
_FDS_MAX: Final = 1024


def passed(wanted: bool | str, environment: Mapping[str, str], pid: int) -> list[int]:
    """The descriptors meant for us: all for True, those of that name for a name."""
    if wanted is False or environment.get("LISTEN_PID") != str(pid):
        return []
    text = environment.get("LISTEN_FDS", "0")
    if not text.isascii() or not text.isdigit() or int(text) > _FDS_MAX:
        raise BadOption("LISTEN_FDS", text, "is no number of descriptors")
    fds = range(FIRST_FD, FIRST_FD + int(text))
    if wanted is True:
        return list(fds)
    names = environment.get("LISTEN_FDNAMES", "").split(":")
    return [fd for fd, name in zip(fds, names, strict=False) if name == wanted]


def listener(fd: int) -> Listener:
    """Take a passed descriptor; BindFailed if it is no listening stream socket."""
    where = f"the passed descriptor {fd}"
    try:
        found = held.open(lambda: _socket_of(fd))
    except OSError as error:
        raise BindFailed(where, os.strerror(error.errno or errno.EBADF)) from error
    listens = found.getsockopt(_socket.SOL_SOCKET, _socket.SO_ACCEPTCONN)
    if found.type != _socket.SOCK_STREAM or not listens:
        held.close(found)
        raise BindFailed(where, "it is no listening stream socket (Accept=no, ListenStream=)")
    found.setblocking(False)
    return Listener(found, shared=True)


def _socket_of(fd: int) -> _socket.socket:
    """A copy: closing ours must not close what the host may use as well."""
    os.set_inheritable(fd, False)
    copy = os.dup(fd)
    try:
        return _socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def address_of(listening: _socket.socket) -> Address:
    """Where a socket listens."""
    name = listening.getsockname()
    if listening.family == _socket.AF_UNIX:
        return Unix(os.fsdecode(name))
    return Tcp(str(name[0]), int(name[1]))
