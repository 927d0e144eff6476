"""Speaks to a running server over the HTTP API that everybody uses; its refusals become our errors."""

from __future__ import annotations

import json
import os
import pwd
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self
from urllib.parse import quote, urlsplit

from yaffle.cli import address
from yaffle.errors import ConfigError, DependencyError, YaffleError

if TYPE_CHECKING:
    import httpx

Row = Mapping[str, object]
"""One JSON object."""

PREFIX: Final = "/yaffle/v1"
TIMEOUT_S: Final = 30.0
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class ServerAway(DependencyError):
    """Nobody answers at the server's address."""


class Refused(YaffleError):
    """The server said no; `status` is its HTTP status."""

    status: ClassVar[int] = 500

    def __init__(self, status: int, message: str, problems: tuple[str, ...] = ()) -> None:
        self.status = status  # type: ignore[misc]
        self.problems = problems
        super().__init__("\n".join(problems) if problems else message)


class Api:
    """One server; use as a context manager. Every method raises ServerAway and Refused."""

    def __init__(self, server: str | None = None, token_file: Path | None = None) -> None:
        import httpx

        card = None if server else address.read(address.state_dir())
        self.url = _checked(server or (card.url if card else address.DEFAULT_SERVER))
        of_card = Path(card.token_file) if card is not None and card.token_file else None
        headers = {"X-Yaffle-User": _user(), "User-Agent": "yaffle"}
        credentials = _credentials(token_file, of_card)
        if credentials:
            headers["Authorization"] = credentials
        self._http = httpx.Client(
            base_url=self.url,
            headers=headers,
            timeout=TIMEOUT_S,
            # A proxy for the world is no way to one's own machine.
            trust_env=urlsplit(self.url).hostname not in _LOOPBACK,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, *path: str, **query: object) -> Row:
        """Return the object at `path` (parts, quoted here) below /yaffle/v1."""
        return self._ask("GET", path, query=query)

    def post(self, *path: str, body: Row | None = None) -> Row:
        """Create, or ask for something."""
        return self._ask("POST", path, body=body or {})

    def put(self, *path: str, body: Row) -> Row:
        """Replace."""
        return self._ask("PUT", path, body=body)

    def patch(self, *path: str, body: Row) -> Row:
        """Change a part."""
        return self._ask("PATCH", path, body=body)

    def delete(self, *path: str, body: Row | None = None) -> Row:
        """Remove."""
        return self._ask("DELETE", path, body=body)

    def answers(self) -> bool:
        """Whether a server answers at all."""
        try:
            self._ask("GET", ())
        except ServerAway:
            return False
        except Refused:
            return True
        return True

    def _ask(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        body: Row | None = None,
        query: Row | None = None,
    ) -> Row:
        import httpx

        target = "/".join((PREFIX, *(quote(part, safe="") for part in path)))
        asked = {key: str(value) for key, value in (query or {}).items() if value is not None}
        try:
            answer = self._http.request(method, target, params=asked, json=body)
        except httpx.TimeoutException:
            raise ServerAway(
                f"server {self.url}: no answer within {TIMEOUT_S:g} s to {method} {target};"
                " whether it was done is unknown: look before you ask again"
            ) from None
        except httpx.TransportError as error:
            raise ServerAway(
                f"server {self.url}: {str(error) or type(error).__name__}; start it with `yaffle serve`,"
                " or name another with --server URL or YAFFLE_SERVER"
            ) from None
        return self._read(answer)

    def _read(self, answer: httpx.Response) -> Row:
        if answer.is_success and not answer.content:
            return {}
        try:
            found = json.loads(answer.content)
        except ValueError:
            found = None
        if answer.is_success and isinstance(found, dict):
            return found
        fault = found.get("error") if isinstance(found, dict) else None
        if not isinstance(fault, dict):
            raise Refused(
                answer.status_code if answer.is_error else 500,
                f"server {self.url}: HTTP {answer.status_code} and no JSON: is this a Yaffle?",
            )
        raise _refused(answer.status_code, fault)


def _refused(status: int, fault: Row) -> Refused:
    problems = fault.get("problems")
    lines = tuple(str(p) for p in problems) if isinstance(problems, list) else ()
    message = str(fault.get("message") or fault.get("title") or f"HTTP {status}")
    if status == 401:
        message += (
            "; give the token with YAFFLE_TOKEN or --token-file, or a name and password with"
            " YAFFLE_USER and YAFFLE_PASSWORD"
        )
    return Refused(status, message, lines)


def rows(answer: Row, key: str) -> list[Row]:
    """Return the list under `key`; raise DependencyError where the server speaks differently."""
    found = answer.get(key)
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise DependencyError(f"the server's answer has no list {key!r}: is it another version?")
    return found


def inner(row: Row, key: str) -> Row:
    """Return the object under `key`; empty where there is none."""
    found = row.get(key)
    return found if isinstance(found, dict) else {}


def items(row: Row, key: str) -> Iterator[Row]:
    """Yield the objects of the list under `key`; none where there is no list."""
    found = row.get(key)
    for item in found if isinstance(found, list) else ():
        if isinstance(item, dict):
            yield item


def _checked(server: str) -> str:
    try:
        parts = urlsplit(server)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"--server {server!r} is no address; write http://127.0.0.1:8777")
    return server.rstrip("/")


def _credentials(path: Path | None, otherwise: Path | None) -> str:
    """Return the Authorization header; "" for none.

    The file that was named, else a name and password, else the file of the running server.
    """
    name, password = os.environ.get("YAFFLE_USER"), os.environ.get("YAFFLE_PASSWORD")
    if path is None and name and password:
        both = b64encode(f"{name}:{password}".encode()).decode()
        return f"Basic {both}"
    token = _token(path or otherwise)
    return f"Bearer {token}" if token else ""


def _token(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get("YAFFLE_TOKEN") or None
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(f"--token-file {path}: {reason}") from None
    tokens = [line for line in lines if line and not line.startswith("#")]
    if not tokens:
        raise ConfigError(f"--token-file {path}: it holds no token; write one a line")
    # `name:token`, or the token alone, each perhaps with project and roles: as the server reads it.
    name, colon, rest = tokens[0].partition(":")
    return ((rest if colon else name).split() or [""])[0]


def _user() -> str:
    """Return who asks, for the events: a name, not a proof."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return name.encode("ascii", "replace").decode()
