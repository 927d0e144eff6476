"""Reads files of credentials: refused when others may read them, read again when changed.

A change that makes no sense keeps the people who were known before: half a file, saved at the wrong
moment, must not lock everybody out in the middle of the night.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog

from yaffle.config.private import read_secret
from yaffle.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from yaffle.ports import Clock

log = structlog.get_logger()

T = TypeVar("T")

FILE_MAX: Final = 1_048_576
EVERY_S: Final = 1.0
"""How often a file is looked at, at most; a person who was removed is out after that."""
LOOK_S: Final = 2.0
"""A file system that answers slower keeps nobody waiting; what is known goes on counting."""

_Stamp = tuple[int, int, int, int]


class Watched(Generic[T]):
    """The content of a private file, as it last made sense."""

    def __init__(
        self, path: Path, parse: Callable[[str], T], *, setting: str, clock: Clock
    ) -> None:
        """Read the file; raise ConfigError naming the setting, the path and what is wrong."""
        self._path = path
        self._parse = parse
        self._setting = setting
        self._clock = clock
        self._stamp, text = _read(path, setting)
        self._content = parse(text)
        self._next_s = clock.monotonic_s() + EVERY_S
        self._looking = False

    @property
    def content(self) -> T:
        """The content as it was when somebody looked last."""
        return self._content

    async def fresh(self) -> T:
        """Return the content, looked at again once a second at most."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._next_s and not self._looking:
            self._next_s = now_s + EVERY_S
            self._looking = True
            try:
                async with asyncio.timeout(LOOK_S):
                    await asyncio.to_thread(self._look)
            except TimeoutError:
                log.warning("credentials file is slow", setting=self._setting)
        return self._content

    def _look(self) -> None:
        try:
            self._read_again()
        finally:
            self._looking = False

    def _read_again(self) -> None:
        try:
            found = _stamp(self._path.stat())
        except OSError:
            found = (0, 0, 0, 0)
        if found == self._stamp:
            return
        self._stamp = found
        try:
            self._stamp, text = _read(self._path, self._setting)
            self._content = self._parse(text)
        except ConfigError as error:
            log.error(  # noqa: TRY400 - the message says it all
                "credentials file refused, the old content goes on counting",
                setting=self._setting,
                reason=str(error),
            )
        else:
            log.info("credentials file read again", setting=self._setting)


def read_private(path: Path, setting: str) -> str:
    """Return the text of a private file; raise ConfigError naming the setting and the fault.

    It may be another user's: root changes it for a server that is not root.
    """
    return _read(path, setting, owned=False)[1]


def private_stamp(path: Path, setting: str) -> _Stamp:
    """Return what tells one state of a private file from another; ConfigError as `read_private`."""
    return _read(path, setting)[0]


def _read(path: Path, setting: str, *, owned: bool = True) -> tuple[_Stamp, str]:
    """Return the stamp and the text of one and the same file."""
    found, data = read_secret(path, setting, most=FILE_MAX, owned=owned)
    try:
        return _stamp(found), data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{setting} = {path}: it is no UTF-8 text") from None


def _stamp(found: os.stat_result) -> _Stamp:
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
