"""Listening on TCP: every address that a name stands for, so that `localhost` answers on both."""

from __future__ import annotations

import _socket
import errno
import os
from collections.abc import Iterable
from typing import Final

from yaffle_health.errors import BindFailed
from yaffle_health.server.held import held
from yaffle_health.uris import Address, Tcp

BACKLOG: Final = 1024
# A name may stand for an address of a family that this host does not have.
_NOT_HERE = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


def listen(address: Tcp, ours: Iterable[Address] = ()) -> list[_socket.socket]:
    """Listen on all of them, or on none; BindFailed says on which it went wrong.

    `ours` is where this process listens already: nobody is to look for another.
    """
    listeners: list[_socket.socket] = []
    missing: OSError | None = None
    try:
        port = address.port
        for family, place in _resolved(address):
            try:
                listeners.append(_bound(family, (place[0], port, *place[2:])))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                missing = error
            else:
                port = listeners[-1].getsockname()[1]
        if missing is not None and not listeners:
            raise missing
    except OSError as error:
        for listener in listeners:
            held.close(listener)
        raise BindFailed(str(address), _explained(error, address, ours)) from error
    return listeners


def _resolved(address: Tcp) -> list[tuple[int, tuple[str | int, ...]]]:
    # As bytes: for a str Python would load the codec of international names.
    found = _socket.getaddrinfo(
        address.host.encode("ascii"),
        address.port,
        _socket.AF_UNSPEC,
        _socket.SOCK_STREAM,
        0,
        _socket.AI_PASSIVE,
    )
    places = [(int(family), (str(place[0]), *place[1:])) for family, _, _, _, place in found]
    return list(dict.fromkeys(places))


def _bound(family: int, place: tuple[str | int, ...]) -> _socket.socket:
    kind = _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK
    listener = held.open(lambda: _socket.socket(family, kind))
    try:
        # Connections that the last process closed keep the port for a minute otherwise.
        listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        if family == _socket.AF_INET6:
            # [::] means IPv6 alone, so that 0.0.0.0 may stand beside it.
            listener.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 1)
        listener.bind(place)
        listener.listen(BACKLOG)
    except BaseException:
        held.close(listener)
        raise
    return listener


def _explained(error: OSError, address: Tcp, ours: Iterable[Address]) -> str:
    if isinstance(error, _socket.gaierror):
        return f"{address.host} cannot be resolved ({error.strerror})"
    reason = os.strerror(error.errno or 0)
    if error.errno == errno.EADDRINUSE:
        own = [str(each) for each in ours if isinstance(each, Tcp) and each.port == address.port]
        if own:
            return f"{reason}: this process itself listens at {' and '.join(own)}"
        return (
            f"{reason}: another process listens there (`ss -ltnp sport = :{address.port}` names it)"
        )
    if error.errno == errno.EACCES:
        return f"{reason}: ports below 1024 need CAP_NET_BIND_SERVICE"
    return reason
