"""The machine's identity: a number drawn once for each state directory.

Not the host's name, which changes and is given twice, nor the machine's id alone, which clones
share: the file lies in the state directory, as the records of the nodes do, one for each machine
that mounts it. Every engine of one machine with one state directory has the same home.
"""

from __future__ import annotations

import os
import re
import socket
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

from yaffle.errors import ConfigError
from yaffle.model.machine_identity import MachineIdentity

FOLDER: Final = "homes"
MACHINE_ID: Final = Path("/etc/machine-id")
UNNAMED: Final = "machine"
"""Containers often have no machine id; then the state directory alone tells."""


def home_of(state_dir: Path, *, machine_id: Path = MACHINE_ID) -> MachineIdentity:
    """Return our home, its number drawn at the first start; raise ConfigError if it cannot be kept."""
    path = state_dir / FOLDER / _machine(machine_id)
    try:
        ident = _read(path) or _drawn(path)
    except OSError as error:
        raise ConfigError(f"state_dir = {state_dir}: {path.name}: {error.strerror}") from None
    return MachineIdentity(ident=ident, host=socket.gethostname())


def _machine(path: Path) -> str:
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return UNNAMED
    return text if re.fullmatch(r"[0-9a-f]{32}", text) else UNNAMED


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""


def _drawn(path: Path) -> str:
    """Draw a number and keep it; of several engines that start at once all return the first one's."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with fresh.open("x") as file:
            file.write(str(uuid.uuid4()))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            # A link is there with its whole content, or not at all; and it never replaces another.
            path.hardlink_to(fresh)
    finally:
        fresh.unlink(missing_ok=True)
    return path.read_text().strip()
