"""Lets commands on this machine find the demo, unless there is a server that they should find instead."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from yaffle.cli.client import address
from yaffle.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

ASK_S: Final = 1.0


@contextmanager
def listed(card: address.Card, default: str = address.DEFAULT_SERVER) -> Iterator[bool]:
    """Leave the demo's card where commands look by default; yield whether it is there.

    Whoever stops or deletes something without naming a server must never hit the demo in place of a
    real server: where one is registered, or listens at the default address, nothing is left.
    """
    folder = address.state_dir()
    made = _made(folder)
    done = _is_free(folder) and not _answers(default)
    if done:
        try:
            address.write(folder, card)
        except OSError:
            # It is a convenience: the demo also says its address.
            done = False
    try:
        yield done
    finally:
        address.remove(folder, card.pid)
        if made:
            _take_away(folder)


def _made(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError:
        return False
    return True


def _take_away(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        # Somebody else has moved in.
        return


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    try:
        with socket.create_connection((str(parts.hostname), parts.port or 80), ASK_S):
            return True
    except OSError:
        return False


def _is_free(folder: Path) -> bool:
    try:
        return address.read(folder) is None
    except ConfigError:
        # Whose server runs there is not to be known.
        return False
