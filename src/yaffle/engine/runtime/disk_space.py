"""Whether there is disk space where healing has to write; a full disk is no node's failure.

Nothing tells of it but a write: a quota or a broken disk shows in no count of free bytes.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from yaffle.integrations.disk import try_room

TRIED_BYTES: Final = 256 * 1024
ANSWER_S: Final = 5.0
"""How long a write may take; a disk that hangs is as good as none."""


def lacking(folder: Path) -> str:
    """Return why nothing can be written in a folder, empty where it can; blocks as long as the disk."""
    try:
        try_room(folder, TRIED_BYTES)
    except OSError as error:
        return f"{folder}: {TRIED_BYTES // 1024} KiB cannot be written: {error.strerror}"
    return ""


class DiskSpace:
    """Result of one process's newest probe of the disk; `look` is called by one task."""

    def __init__(self, *, database: Path | None = None, state_dir: Path | None = None) -> None:
        """`database`: the folder of its file, None for a server's; `state_dir`: that of local nodes."""
        self._database, self._state_dir = database, state_dir
        self._found: dict[Path, str] = {}
        self._asked: dict[Path, asyncio.Future[str]] = {}
        # Its own: a disk that hangs must not take the threads of everybody else.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="yaffle-room")

    def lacks(self, *, here: bool) -> str:
        """Return what keeps us from healing; `here`: nodes that are processes of this machine."""
        folders = (self._database, self._state_dir if here else None)
        return next((why for at in folders if at and (why := self._found.get(at, ""))), "")

    async def look(self) -> None:
        """Try to write; a disk that has not answered yet is not asked a second time."""
        for folder in {at for at in (self._database, self._state_dir) if at is not None}:
            asked = self._asked.get(folder)
            if asked is None:
                loop = asyncio.get_running_loop()
                asked = self._asked[folder] = loop.run_in_executor(self._threads, lacking, folder)
            await asyncio.wait([asked], timeout=ANSWER_S)
            if asked.done():
                del self._asked[folder]
                self._found[folder] = asked.result()
            else:
                self._found[folder] = f"{folder}: the disk does not answer"
