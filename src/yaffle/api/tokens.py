"""Who may speak to a server that others can reach: bearer tokens from a file, compared blindly."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.config import split_address
from yaffle.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from yaffle.config import ServerSettings

TOKEN_MIN: Final = 16
TOKENS_MAX: Final = 1000
FILE_MAX: Final = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The tokens of a file: digest → name."""

    names: tuple[tuple[bytes, str], ...]

    def name_of(self, token: bytes) -> str | None:
        """Return the token's name, or None; takes as long for every wrong token as for a right one."""
        given = hashlib.sha256(token).digest()
        found: str | None = None
        for digest, name in self.names:
            if hmac.compare_digest(digest, given):
                found = name
        return found


def read_tokens(server: ServerSettings) -> Tokens | None:
    """Return the tokens that requests must show, None where none are needed.

    Raises ConfigError for an address that strangers can reach without them, and for a file that
    cannot be read, that others may read, or whose lines are no tokens.
    """
    host, _ = split_address(server.listen)
    if server.token_file is None:
        if not is_loopback(host):
            raise ConfigError(
                f"server.listen = {server.listen!r} can be reached from elsewhere: set"
                " server.token_file to a file with a token, or listen on 127.0.0.1"
            )
        return None
    return _parsed(server.token_file, _read(server.token_file))


def is_loopback(host: str) -> bool:
    """Whether the host can only be this machine."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        if mode & (stat.S_IRWXO | stat.S_IWGRP):
            raise ConfigError(
                f"server.token_file = {path}: others may read or change it; chmod 600 {path}"
            )
        with path.open("rb") as file:
            return file.read(FILE_MAX).decode()
    except OSError as error:
        raise ConfigError(f"server.token_file = {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"server.token_file = {path}: it is no UTF-8 text") from None


def _parsed(path: Path, text: str) -> Tokens:
    names: list[tuple[bytes, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        name, colon, token = entry.partition(":")
        if not colon:
            name, token = f"token on line {number}", entry
        token = token.strip()
        if len(token) < TOKEN_MIN or not token.isprintable() or " " in token or not name.strip():
            raise ConfigError(
                f"server.token_file = {path}: line {number} is no `name:token` or `token` of at"
                f" least {TOKEN_MIN} characters; make one with `openssl rand -hex 32`"
            )
        names.append((hashlib.sha256(token.encode()).digest(), name.strip()[:255]))
    if not 0 < len(names) <= TOKENS_MAX:
        raise ConfigError(f"server.token_file = {path}: it holds {len(names)} tokens")
    return Tokens(names=tuple(names))
