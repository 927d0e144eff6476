"""Settings of load balancers: an author of policies names one of these, and never an address."""

from __future__ import annotations

import base64
import ipaddress
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from yaffle.errors import ConfigError
from yaffle.integrations.driver_settings import Section, read_secret
from yaffle.integrations.http import check_url, read_ca_file
from yaffle.integrations.openstack import CloudsYaml, read_credentials

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
TYPES: Final = ("haproxy", "octavia")
"""Kinds that can be asked."""
_PATH_MAX: Final = 107
"""Bytes that the system takes for the path of a socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """A socket of HAProxy's or for it: a path, or host and port."""

    path: str = ""
    host: str = ""
    port: int = 0

    @property
    def words(self) -> str:
        """Return it for messages."""
        return self.path or f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """HAProxy's statistics over HTTP, as CSV."""

    url: str
    words: str
    """For messages: never the URL itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balancer:
    """One table `[drivers.LB_STATUS_POLLING.balancers.NAME]`: HAProxy."""

    name: str
    type: str
    """Kind of load balancer: `haproxy`, or as below."""
    socket: tuple[Socket, ...]
    """HAProxy's stats sockets: `/run/haproxy.sock`, or `host:port`. A text or a list: several processes
    or machines that balance the same pools. A node is down when all that answer say so."""
    url: tuple[Page, ...]
    """Its statistics as CSV over HTTP: `http://…/stats;csv`. A text or a list."""
    headers: Mapping[str, str] = field(repr=False)
    username: str
    """For HTTP: who asks. Needs one of the passwords."""
    password_file: Path | None
    """File with the password, read once at the start."""
    password_env: str
    """Variable with the password."""
    ca_file: Path | None
    """For HTTPS: authority to trust instead of the system's."""
    events: tuple[Socket, ...]
    """Where we listen and HAProxy logs to: the path of a socket, or `address:port` for UDP. A text or a
    list."""
    events_from: tuple[Network, ...]
    """Who may send over UDP: addresses or networks. Required unless `events` is on loopback."""
    timeout_s: float
    """`timeout`: of one request; the check's own deadline may be shorter."""

    @property
    def sources(self) -> tuple[Socket | Page, ...]:
        """Return all who are asked."""
        return (*self.socket, *self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudBalancer:
    """One such table: Octavia."""

    name: str
    type: str
    """`octavia`."""
    credentials: CloudsYaml
    timeout_s: float
    """`timeout`: of one answer; the check's own deadline may be shorter."""


AnyBalancer = Balancer | CloudBalancer


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerSettings:
    """Section `drivers.LB_STATUS_POLLING`."""

    balancers: Mapping[str, AnyBalancer]

    @classmethod
    def read(cls, section: Section) -> BalancerSettings:
        """Raise ConfigError for what is missing, wrong or unknown."""
        read = {name: _balancer(name, part) for name, part in section.sections("balancers").items()}
        section.finish()
        found = {name: one for name, one in read.items() if one is not None}
        _each_place_once(found)
        return cls(balancers=found)


def _each_place_once(balancers: Mapping[str, AnyBalancer]) -> None:
    """Two balancers may have backends of one name: whose a line is, only its place can tell."""
    taken: dict[Socket, str] = {}
    for name, one in balancers.items():
        for place in one.events if isinstance(one, Balancer) else ():
            first = taken.setdefault(place, name)
            if first != name:
                raise ConfigError(
                    f"drivers.LB_STATUS_POLLING.balancers.{name}.events = {place.words!r}: balancer"
                    f" {first!r} is heard there; give each a place of its own"
                )


def _balancer(name: str, section: Section) -> AnyBalancer | None:
    """Return what an operator says of one; None, which is noted, where it is of no known kind."""
    kind = section.text("type")
    if kind not in TYPES:
        section.wrong("type", f"= {kind!r}: it must be one of {', '.join(TYPES)}")
        # Which keys there should be depends on it.
        return None
    balancer = octavia(name, section) if kind == "octavia" else _haproxy(name, section)
    section.finish()
    return balancer


def octavia(name: str, section: Section) -> CloudBalancer:
    """Return what an operator says of Octavia."""
    return CloudBalancer(
        name=name,
        type="octavia",
        credentials=read_credentials(section),
        timeout_s=_timeout_s(section),
    )


def _timeout_s(section: Section) -> float:
    return section.number("timeout", 5, low=0.1, high=60)


def _haproxy(name: str, section: Section) -> Balancer:
    sockets, urls = _each(section, "socket", _socket), _texts(section, "url")
    if not sockets and not urls and section.right("socket", "url"):
        section.wrong("socket", "or url is needed")
    username = section.text("username", "")
    password_file = section.path("password_file")
    password_env = section.text("password_env", "")
    return Balancer(
        name=name,
        type="haproxy",
        socket=sockets,
        url=tuple(
            Page(url=_checked(url, section), words=f"url {place + 1}")
            for place, url in enumerate(urls)
        ),
        headers=_credentials(section, username, password_file, password_env),
        username=username,
        password_file=password_file,
        password_env=password_env,
        ca_file=read_ca_file(section),
        events=(events := _each(section, "events", _place)),
        events_from=_senders(events, section),
        timeout_s=_timeout_s(section),
    )


def _texts(section: Section, key: str) -> tuple[str, ...]:
    value = section.raw(key)
    if value is None:
        return ()
    texts = (value,) if isinstance(value, str) else value
    if (
        not isinstance(texts, list | tuple)
        or not texts
        or not all(isinstance(text, str) and text and "\0" not in text for text in texts)
    ):
        section.wrong(key, "must be a text or a list of texts")
        return ()
    return tuple(texts)


def _each(section: Section, key: str, read: Callable[[str, Section], Socket]) -> tuple[Socket, ...]:
    texts = _texts(section, key)
    return section.attempt(key, lambda: tuple(read(text, section) for text in texts), ())


def _checked(url: str, section: Section) -> str:
    return section.attempt("url", lambda: check_url(url, section.place("url")), "")


def _socket(text: str, section: Section) -> Socket:
    if text.startswith("/"):
        return Socket(path=text)
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(
            f"{section.place('socket')} = {text!r}: give an absolute path, or host:port"
        )
    return Socket(host=host.strip("[]"), port=int(port))


def _place(text: str, section: Section) -> Socket:
    """Return where to listen: no name is looked up, because it might be somebody else's."""
    host, colon, port = text.rpartition(":")
    if text.startswith("/"):
        if len(text.encode()) > _PATH_MAX:
            raise ConfigError(f"{section.place('events')} is longer than {_PATH_MAX} bytes")
        return Socket(path=text)
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        address = None
    if not colon or address is None or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(
            f"{section.place('events')} = {text!r}: give an absolute path, or address:port"
        )
    return Socket(host=str(address), port=int(port))


def _senders(events: Sequence[Socket], section: Section) -> tuple[Network, ...]:
    key = "events_from"
    texts = _texts(section, key)
    try:
        found = tuple(ipaddress.ip_network(text, strict=False) for text in texts)
    except ValueError as error:
        section.wrong(key, f"is no list of addresses or networks: {error}")
        return ()
    udp = [one for one in events if one.host]
    if found and not udp and section.right("events"):
        section.wrong(key, "is of no use: no events come over UDP")
    far = [one.words for one in udp if not ipaddress.ip_address(one.host).is_loopback]
    if far and not found:
        section.wrong(key, f"is missing: {far[0]} can be reached by others than HAProxy")
    return found


def _credentials(
    section: Section, username: str, file: Path | None, variable: str
) -> Mapping[str, str]:
    """Return the header that says who asks; empty where nobody is named."""
    if not username:
        if file is not None or variable:
            section.wrong("username", "is missing beside its password")
        return {}
    password = b""
    if (file is None) == (not variable):
        section.wrong("password_file", "or password_env is needed, exactly one of them")
    elif file is not None:
        place = section.place("password_file")
        password = section.attempt("password_file", lambda: read_secret(file, place), b"")
    elif variable in os.environ:
        password = os.environ[variable].encode()
    else:
        section.wrong("password_env", "names a variable that there is not")
    word = base64.b64encode(username.encode() + b":" + password).decode()
    return {"Authorization": f"Basic {word}"}
