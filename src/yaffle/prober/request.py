"""Turns a URL into what is sent and where, or says why it cannot; nothing is normalised silently."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

URL_CHARS_MAX: Final = 2048

Address = tuple[int, tuple[str, int] | tuple[str, int, int, int]]
"""Family and what `connect` takes."""

_HOST: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,253})")
_PLACEHOLDER: Final = re.compile(r"\{([a-z_]*)\}")
_UNUSABLE: Final = re.compile(r"[^\x21-\x7e]|[<>\"\\^`{|}]")


class Unusable(Exception):  # a value for the caller, never seen outside of the prober
    """The URL cannot be asked: `code` is the row, the text says why."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that is known before a connection is made."""

    shown: str
    """The URL for people: without its query, which may hold a token."""
    tls: bool
    host: str
    """Without brackets."""
    port: int
    addresses: Sequence[Address] | None
    """Set where the host is numeric; None where it must be resolved."""
    data: bytes


def build(url: str, *, keep_alive: bool) -> Request:
    """Return the request for `url`, or raise Unusable."""
    parts = _split(url)
    host, port = _host_and_port(parts)
    path = parts.path or "/"
    if any(unquote(segment) in (".", "..") for segment in path.split("/")):
        raise _bad("its path has a dot segment")
    literal = f"[{host}]" if ":" in host else host
    default = 443 if parts.scheme == "https" else 80
    authority = literal if port == default else f"{literal}:{port}"
    target = f"{path}?{parts.query}" if parts.query else path
    return Request(
        shown=f"{parts.scheme}://{authority}{path}"[:200],
        tls=parts.scheme == "https",
        host=host,
        port=port,
        addresses=_numeric(host, port),
        data=(
            f"GET {target} HTTP/1.1\r\n"
            f"Host: {authority}\r\n"
            "User-Agent: yaffle\r\n"
            "Accept: application/health+json, */*\r\n"
            # A pattern is searched in the text itself.
            "Accept-Encoding: identity\r\n"
            f"Connection: {'keep-alive' if keep_alive else 'close'}\r\n\r\n"
        ).encode("ascii"),
    )


def _split(url: str) -> SplitResult:
    missing = _PLACEHOLDER.search(url)
    if missing:
        raise Unusable("X-UNEXPANDED", f"the node has no {missing[1] or 'value'} for the URL (yet)")
    if len(url) > URL_CHARS_MAX:
        raise _bad(f"longer than {URL_CHARS_MAX} characters")
    # urlsplit would drop line breaks and tabs without a word.
    if _UNUSABLE.search(url):
        raise _bad("it has a character that a URL cannot have")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise _bad(str(error)) from None
    if parts.scheme not in ("http", "https"):
        raise _bad("only http and https can be asked")
    if "@" in parts.netloc:
        raise _bad("a user or password in a URL is not supported")
    return parts


def _host_and_port(parts: SplitResult) -> tuple[str, int]:
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _bad("its port is not a number from 1 to 65535") from None
    if ":" in host:
        host = host.replace("%25", "%", 1)
    elif not _HOST.fullmatch(host):
        raise _bad("its host is not a host name")
    if port is None:
        port = 443 if parts.scheme == "https" else 80
    if port == 0:
        raise _bad("its port is not a number from 1 to 65535")
    return host, port


def _numeric(host: str, port: int) -> Sequence[Address] | None:
    """Addresses of a numeric host in any spelling that the resolver knows (`127.1`); else None."""
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except (OSError, UnicodeError):
        if ":" in host:
            raise _bad("its host is not an IPv6 address") from None
        return None
    return tuple((int(family), address) for family, _, _, _, address in found)  # type: ignore[misc]


def _bad(why: str) -> Unusable:
    return Unusable("X-BAD-URL", why)
