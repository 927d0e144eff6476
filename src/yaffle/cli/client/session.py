"""A name and password, exchanged for a session that the next command finds in the user's cache.

Without a folder to keep it in, and with a server that knows of no sessions, the password goes along
with each request, as it would with any other client.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from base64 import b64encode
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx

PATH: Final = "/yaffle/v1/sessions"
TOKEN_MAX: Final = 4096
NONE: Final = "none"
"""Kept where sessions are of no use; whoever deletes it has it tried again."""


class SessionAuth(httpx.Auth):
    """Signs requests with a session, begun anew where the server does not know it any more."""

    requires_response_body = True

    def __init__(self, url: str, name: str, password: str) -> None:
        self._url = url
        self._basic = f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"
        self._file = _file(url, name)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send with the session, else with a new one, else with the password."""
        token = _kept(self._file)
        if token not in {"", NONE}:
            answer = yield _with(request, f"Bearer {token}")
            if answer.status_code != httpx.codes.UNAUTHORIZED:
                return
        if token != NONE and self._file is not None and _is_usable(self._file.parent):
            begin = httpx.Request("POST", self._url + PATH, headers={"User-Agent": "yaffle"})
            token = _begun((yield _with(begin, self._basic)))
            if token and _keep(self._file, token):
                answer = yield _with(request, f"Bearer {token}")
                if answer.status_code != httpx.codes.UNAUTHORIZED:
                    return
                # Another of several processes behind that address, which takes each request in turn.
                _keep(self._file, NONE)
        yield _with(request, self._basic)


def _with(request: httpx.Request, credentials: str) -> httpx.Request:
    request.headers["Authorization"] = credentials
    return request


def _begun(answer: httpx.Response) -> str:
    """Return the token of a new session; "" where there is none."""
    if answer.status_code != httpx.codes.CREATED:
        return ""
    try:
        token = answer.json()["session"]["token"]
    except (ValueError, KeyError, TypeError):
        return ""
    return token if isinstance(token, str) and token.isascii() and token.isprintable() else ""


# --- the file -----------------------------------------------------------------------------------


def _file(url: str, name: str) -> Path | None:
    """Return where the session with that server is kept; None for somebody without a home."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    which = hashlib.sha256(f"{url}\n{name}".encode()).hexdigest()[:32]
    return cache / "yaffle" / f"session-{which}"


def _kept(file: Path | None) -> str:
    """Return the token; "" where there is none, or where others could have read or written it."""
    with suppress(OSError, UnicodeDecodeError):
        if file is not None:
            with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as kept:
                found = os.fstat(kept.fileno())
                if found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077:
                    return kept.read(TOKEN_MAX).decode("ascii")
    return ""


def _is_usable(folder: Path) -> bool:
    """Whether a file of ours can be kept there."""
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.access(folder, os.W_OK | os.X_OK)


def _keep(file: Path, token: str) -> bool:
    """Keep the token for the next command; whole or not at all, for nobody else to read."""
    fresh = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as kept:
            kept.write(token)
        fresh.replace(file)
    except OSError:
        fresh.unlink(missing_ok=True)
        return False
    return True
