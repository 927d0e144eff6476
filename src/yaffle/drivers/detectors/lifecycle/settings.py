"""What the operator says of message brokers: where they are, what to listen to, how to be let in.

A URL holds a password, so that none is ever shown: in messages a broker is HOST:PORT.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from yaffle.config.faults import Faults
from yaffle.errors import ConfigError
from yaffle.integrations.driver_settings import Section, read_secret

TOPICS: Final = ("notifications", "versioned_notifications")
PRIORITIES: Final = ("info", "error")
_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_PREFIX_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker of a source."""

    name: str
    """HOST:PORT, for messages."""
    host: str
    port: int
    tls: bool
    vhost: str = "/"
    user: str = "guest"
    password: str = field(default="guest", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """One table `[drivers.LIFECYCLE_EVENTS.sources.NAME]`."""

    name: str
    urls: tuple[Broker, ...]
    """`amqp://USER:PASSWORD@HOST:PORT/VHOST` or `amqps://…`: the brokers of one cluster, tried in turn.
    Or `urls_file`."""
    exchanges: tuple[str, ...]
    """The senders' `control_exchange`: `nova`, for stacks also `heat`. They must exist."""
    topics: tuple[str, ...]
    """The senders' notification topics; of each, `.info` and `.error` are heard."""
    queue_prefix: str
    """Our own queues are named so, then at random."""
    queue_length: int
    """Messages that wait for us at most; when older ones are dropped, every node is read."""
    heartbeat_s: float
    """`heartbeat`: seconds between signs of life on an idle connection."""
    ssl: ssl.SSLContext | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleSettings:
    """`[drivers.LIFECYCLE_EVENTS]`."""

    sources: tuple[SourceSettings, ...]

    @classmethod
    def read(cls, section: Section) -> LifecycleSettings:
        """Return the settings; raise ConfigError naming each fault."""
        inner = section.sections("sources")
        sources = tuple(_source(name, one) for name, one in sorted(inner.items()))
        section.finish()
        return cls(sources=sources)


def _source(name: str, section: Section) -> SourceSettings:
    urls = _brokers(section)
    source = SourceSettings(
        name=name,
        urls=urls,
        exchanges=_names(section, "exchanges", ("nova",)),
        topics=_names(section, "topics", TOPICS),
        queue_prefix=section.text("queue_prefix", "yaffle")[:_PREFIX_MAX],
        queue_length=int(section.number("queue_length", 10_000, low=100, high=1_000_000)),
        heartbeat_s=section.number("heartbeat", 10, low=1, high=300),
        ssl=_tls(section, used=any(broker.tls for broker in urls)),
    )
    section.finish()
    return source


def _brokers(section: Section) -> tuple[Broker, ...]:
    file = section.path("urls_file")
    given = section.raw("urls")
    if not section.right("urls_file"):
        return ()
    if (file is None) == (given is None):
        section.wrong("urls", "or urls_file is needed, exactly one of them")
        return ()
    if file is None:
        key, texts = "urls", section.texts("urls")
    else:
        key, place = "urls_file", section.place("urls_file")
        texts = section.attempt(key, lambda: _lines(file, place), tuple[str, ...]())
    return section.attempt(key, lambda: _all(texts, section.place(key)), tuple[Broker, ...]())


def _all(texts: Iterable[str], place: str) -> tuple[Broker, ...]:
    found, faults = [], Faults()
    for number, text in enumerate(texts):
        with faults.gather():
            found.append(_broker(text, f"{place}[{number}]"))
    faults.settle()
    return tuple(found)


def _lines(file: Path, place: str) -> tuple[str, ...]:
    lines = read_secret(file, place).decode(errors="replace").splitlines()
    texts = tuple(line.strip() for line in lines if line.strip())
    if not texts:
        raise ConfigError(f"{place}: {file} holds no URL")
    return texts


def _broker(text: str, place: str) -> Broker:
    """Return the broker; the message of a fault never shows the URL, which holds a password."""
    # oslo.messaging's word for the same protocol, so that a transport_url can be copied.
    scheme, _, rest = text.partition("://")
    text = f"{'amqp' if scheme == 'rabbit' else scheme}://{rest}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ConfigError(f"{place} is no URL of one broker") from None
    if parts.netloc.count("@") > 1:
        raise ConfigError(f"{place} names several brokers: give each a URL of its own")
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ConfigError(f"{place} must be amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://…")
    if parts.query or parts.fragment:
        raise ConfigError(f"{place} may hold no ? and no #: settings are keys of this section")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = port or _PORTS[parts.scheme]
    return Broker(
        name=f"{host}:{port}",
        host=parts.hostname,
        port=port,
        tls=parts.scheme == "amqps",
        vhost=unquote(parts.path[1:]) or "/",
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
    )


def _names(section: Section, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    return default if section.raw(key) is None else tuple(dict.fromkeys(section.texts(key)))


def _tls(section: Section, *, used: bool) -> ssl.SSLContext | None:
    ca_file, cert = section.path("ca_file"), section.path("cert_file")
    key, verify = section.path("key_file"), section.flag("verify", default=True)
    if not used:
        if (ca_file or cert or key or not verify) and section.right("urls", "urls_file"):
            section.wrong("urls", "has no amqps://, but there are settings of TLS")
        return None
    context = section.attempt(
        "ca_file",
        lambda: _context(ca_file, section.place("ca_file")),
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    if cert is not None:
        section.attempt("cert_file", lambda: _load(context, cert, key, section), None)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _load(context: ssl.SSLContext, cert: Path, key: Path | None, section: Section) -> None:
    # The key, wherever it is; a file of both is a secret as a whole.
    read_secret(key or cert, section.place("key_file" if key else "cert_file"))
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"{section.place('cert_file')}: {cert} cannot be used: {error}"
        ) from error


def _context(ca_file: Path | None, place: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{place}: {ca_file} cannot be used: {error}") from error


WORDS: Final[Mapping[str, str]] = {
    "urls_file": "File with one such URL a line, in place of `urls`.",
    "cert_file": "Our own certificate, where the broker asks for one.",
    "key_file": "Its key, where it is not in the same file.",
    "verify": "Whether the broker has to prove who it is.",
}
"""Of settings that have no field of their own, for the reference."""
