"""Where the endpoint listens: the `uri` option read by rfc3986, and then by what rfc3986 lets through.

rfc3986 splits and validates each entry. What it accepts and nobody can bind is refused here: no port
or one above 65535, an empty host or `*`, userinfo, `unix://run/x.sock` (which has a host "run"), `..`,
a path longer than the 107 bytes of sun_path (seed 4 "Other deployer impact"; its rule of allowed
characters, with "." also in host names and socket paths, see ADR 0010).
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import posixpath
import re
import urllib.parse
from typing import Final, Protocol

from yaffle_health.errors import BadUri

OPTION: Final = "uri"
SUN_PATH_MAX: Final = 107
"""Bytes of a UNIX socket's path on Linux, without its final NUL."""
PID: Final = "{pid}"
"""Stands in a UNIX path for the process id, so that every worker has a socket of its own."""

_PID_MAX = "4194304"
_ALLOWED = re.compile(r"[A-Za-z0-9_./:\[\]%-]*")
_HOST_NAME = re.compile(
    r"(?=.{1,253}\.?$)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*\.?"
)
_DIGITS_ONLY = re.compile(r"[0-9.]+")
_HALF_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class _Reference(Protocol):
    """What rfc3986 makes of an entry (the library ships no types)."""

    scheme: str | None
    authority: str | None
    host: str | None
    port: str | None
    path: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Tcp:
    """A TCP address: `host` a name, an IPv4 or a bare IPv6 address (with `%zone` if it has one)."""

    host: str
    port: int

    def __str__(self) -> str:
        if ":" not in self.host:
            return f"tcp://{self.host}:{self.port}"
        return f"tcp://[{self.host.replace('%', '%25')}]:{self.port}"

    def takes(self, other: Tcp) -> bool:
        """Whether it stands for all addresses of a family, and the other is one of that family."""
        if self.port != other.port or self.host == other.host:
            return False
        if self.host == "0.0.0.0":  # noqa: S104 - read, not bound
            return bool(_DIGITS_ONLY.fullmatch(other.host))
        return self.host == "::" and ":" in other.host


@dataclasses.dataclass(frozen=True, slots=True)
class Unix:
    """The absolute path of a UNIX socket; `{pid}` in it stands for the process id."""

    path: str

    def __str__(self) -> str:
        return f"unix://{urllib.parse.quote(self.path, safe='/{}')}"

    def of_process(self, pid: int) -> Unix:
        """The path as that process uses it."""
        return Unix(self.path.replace(PID, str(pid)))


Address = Tcp | Unix


def parse(text: str | None, *, ephemeral: bool = False) -> tuple[Address, ...]:
    """Read a comma-separated list; empty or None means disabled. BadUri names the entry and says why.

    Port 0, any free port, is for tests alone: `ephemeral` allows it.
    """
    if text is not None and not isinstance(text, str):
        raise BadUri(OPTION, text, "give one text, with commas between several addresses")
    if text is None or not text.strip():
        return ()
    found: list[Address] = []
    for entry in text.split(","):
        if not entry.strip():
            raise BadUri(OPTION, text, "an entry between two commas, or behind the last, is empty")
        address = _one(entry.strip(), ephemeral=ephemeral)
        for other in found:
            _both(text, other, address)
        found.append(address)
    return tuple(found)


def _both(text: str, one: Address, other: Address) -> None:
    """BadUri if nobody can listen on both: the kernel would call the second one taken, by us."""
    if isinstance(one, Tcp) and isinstance(other, Tcp):
        if one.port != other.port or one.port == 0:
            return
        for all_of_them, each in ((one, other), (other, one)):
            if all_of_them.takes(each):
                why = f"{all_of_them} listens on {each} as well: leave one of them out"
                raise BadUri(OPTION, text, why)
    if one == other:
        raise BadUri(OPTION, text, f"{one} is there twice")


def _one(entry: str, *, ephemeral: bool) -> Address:
    reference = _validated(entry)
    match (reference.scheme or "").lower():
        case "tcp":
            address: Address = _tcp(entry, reference, ephemeral=ephemeral)
        case "unix":
            address = _unix(entry, reference)
        case _:
            raise BadUri(OPTION, entry, "write tcp://host:port or unix:///absolute/path")
    if not _ALLOWED.fullmatch(entry.replace(PID, "")):
        why = "only letters, digits and _ - . / : [ ] % may be used (write others as %XX)"
        raise BadUri(OPTION, entry, why)
    return address


def _validated(entry: str) -> _Reference:
    # Imported when it is needed: rfc3986 takes longer to import than the rest of this library.
    from rfc3986 import uri_reference, validators  # type: ignore[import-untyped]
    from rfc3986.exceptions import RFC3986Exception  # type: ignore[import-untyped]

    scheme, colon, rest = entry.partition(":")
    checks = validators.Validator().check_validity_of(
        "scheme", "userinfo", "host", "port", "path", "query", "fragment"
    )
    try:
        reference: _Reference = uri_reference(scheme.lower() + colon + rest)
        checks.validate(reference)
    except (RFC3986Exception, ValueError) as error:
        # Without this step a port of six digits would silently become "no host and no port".
        raise BadUri(OPTION, entry, _why_invalid(entry, error)) from None
    for part in ("userinfo", "query", "fragment"):
        if getattr(reference, part) is not None:
            raise BadUri(OPTION, entry, f"it may not have a {part}")
    return reference


def _why_invalid(entry: str, error: Exception) -> str:
    port = re.search(r":0*([0-9]+)$", entry)
    if port and (len(port[1]) > 5 or int(port[1]) > 65535):
        return "the port must be from 1 to 65535"
    if entry.count(":") > 2 and "[" not in entry:
        return "write an IPv6 address in brackets: tcp://[::1]:port"
    if "[" in entry and "%" in entry and "%25" not in entry:
        return "write the zone of an IPv6 address after %25: tcp://[fe80::1%25eth0]:port"
    if "@" in entry or not error.args:
        return "no valid URI"  # the error's own words would hold the password
    return f"no valid URI ({error.args[0]})"


def _tcp(entry: str, reference: _Reference, *, ephemeral: bool) -> Tcp:
    if reference.path:
        raise BadUri(OPTION, entry, "a TCP address has no path (the endpoint is always at /health)")
    if not reference.authority or not reference.host:
        raise BadUri(OPTION, entry, "the host is missing (all interfaces: 0.0.0.0 or [::])")
    if not reference.port:
        raise BadUri(OPTION, entry, "the port is missing")
    port = int(reference.port)
    if not (0 if ephemeral else 1) <= port <= 65535:
        raise BadUri(OPTION, entry, "the port must be from 1 to 65535")
    return Tcp(_host(entry, reference.host), port)


def _host(entry: str, host: str) -> str:
    if host.startswith("["):
        bare = urllib.parse.unquote(host[1:-1])
        try:
            return str(ipaddress.IPv6Address(bare))
        except ValueError as error:
            raise BadUri(OPTION, entry, f"no IPv6 address: {error}") from None
    if host == "*":
        raise BadUri(OPTION, entry, "write 0.0.0.0 or [::] for all interfaces")
    if _DIGITS_ONLY.fullmatch(host):
        try:
            # getaddrinfo would take 127.1 and 1 for addresses, in a way nobody expects.
            ipaddress.IPv4Address(host)
        except ValueError as error:
            raise BadUri(OPTION, entry, f"no IPv4 address: {error}") from None
    elif not _HOST_NAME.fullmatch(host):
        raise BadUri(OPTION, entry, f"{host!r} is no host name")
    return host.lower()


def _unix(entry: str, reference: _Reference) -> Unix:
    if reference.authority is not None:
        why = f"{reference.authority!r} would be a host: write three slashes, unix:///absolute/path"
        raise BadUri(OPTION, entry, why)
    # In the entry: rfc3986 mends half an escape without a word.
    if _HALF_ESCAPE.search(entry):
        raise BadUri(
            OPTION, entry, "a % stands before two hex digits: write %25 for the sign itself"
        )
    path = urllib.parse.unquote(reference.path or "", errors="surrogateescape")
    if not path.startswith("/"):
        raise BadUri(OPTION, entry, "the path must be absolute: unix:///absolute/path")
    if _CONTROL.search(path):
        raise BadUri(OPTION, entry, "control characters cannot be in a path")
    if ".." in path.split("/"):
        raise BadUri(OPTION, entry, "the path may not go up with '..'")
    path = posixpath.normpath("/" + path.lstrip("/"))
    if path == "/":
        raise BadUri(OPTION, entry, "the path names no file")
    length = len(os.fsencode(path.replace(PID, _PID_MAX)))
    if length > SUN_PATH_MAX:
        why = f"the path has {length} bytes, a UNIX socket's may have {SUN_PATH_MAX}"
        raise BadUri(OPTION, entry, why)
    return Unix(path)
