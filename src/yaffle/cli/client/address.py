"""Address of the server that runs here: it leaves it in a file, and commands read that."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from yaffle.errors import ConfigError

DEFAULT_SERVER: Final = "http://127.0.0.1:8777"
DEFAULT_STATE_DIR: Final = "~/.local/state/yaffle"
"""As `state_dir` in config.py, which takes a quarter of a second to import; a test compares them."""
NAME: Final = "server.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The content of `server.json`."""

    url: str
    pid: int
    token_file: str | None = None
    certificate: str | None = None
    """Which the server shows: a command of this machine believes it, whatever name stands in it."""


def named() -> Path | None:
    """Return the state directory that the environment names."""
    text = os.environ.get("YAFFLE_STATE_DIR")
    return Path(text).expanduser() if text else None


def state_dir() -> Path:
    """Return the state directory of the environment, or the default one."""
    return named() or Path(DEFAULT_STATE_DIR).expanduser()


def write(folder: Path, card: Card) -> Path:
    """Leave the card in `folder`, private to us, whole or not at all; raises OSError."""
    path = folder / NAME
    fresh = folder / f"{NAME}.{card.pid}"
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(card), file)
    fresh.replace(path)
    return path


def read(folder: Path) -> Card | None:
    """Return the card of a server that still runs; None where there is none, or none that is whole.

    Raises ConfigError where it is not to be known: another's server is none to fall back on.
    """
    try:
        text = (folder / NAME).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(
            f"{folder / NAME}: {error.strerror}; run it as the user of the server, or name the server"
            " with --server URL or YAFFLE_SERVER"
        ) from None
    try:
        found = json.loads(text)
        card = Card(
            url=str(found["url"]),
            pid=int(found["pid"]),
            token_file=found.get("token_file"),
            certificate=found.get("certificate"),
        )
    except (ValueError, KeyError, TypeError):
        return None
    return card if _lives(card.pid) else None


def remove(folder: Path, pid: int) -> None:
    """Take our own card away; a successor's stays."""
    try:
        found = json.loads((folder / NAME).read_bytes())
        if found["pid"] == pid:
            (folder / NAME).unlink()
    except (OSError, ValueError, KeyError, TypeError):
        return


def _lives(pid: int) -> bool:
    # A server killed with -9 leaves its card behind.
    return pid > 0 and Path(f"/proc/{pid}").exists()
