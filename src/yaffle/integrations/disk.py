"""Whether a folder takes what is to be written there: only a write tells."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

TRIED_BYTES: Final = 64 * 1024
"""More than the beginning or the end of one thing writes."""


def try_room(folder: Path, size: int = TRIED_BYTES) -> None:
    """Write `size` bytes, durably, and take them away again; raises OSError. Blocks as long as the disk.

    A quota or a broken disk shows in no count of free bytes.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(size))
        file.flush()
        os.fsync(file.fileno())
