"""Outgoing HTTP that cannot be led astray: addresses are checked at connect, and all is bounded.

httpcore is used without httpx's client on purpose: no proxies or .netrc from the environment, no
redirects, no cookies, no decompression. Each request has a connection of its own, so that an idle
connection which the receiver has closed is never mistaken for a lost answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_network
from pathlib import Path
from typing import Final

import httpcore
import httpx

from yaffle.core.addresses import AddressRules, refusal
from yaffle.errors import ConfigError
from yaffle.integrations.driver_settings import Section
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext

BODY_MAX: Final = 65_536
_ADDRESSES_MAX: Final = 8
_CAUSES_MAX: Final = 8
_AGAIN: Final = frozenset({408, 425, 429})
"""Client errors that say "later", not "never"."""
_DEFAULT_HEADERS: Final = {"User-Agent": "yaffle", "Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The receiver answered; `body` holds as much as was asked for, `cut` says that it had more."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """Raised where no whole answer came; `sent`: whether the receiver may have seen the request."""

    sent: bool
    detail: str
    refused: bool = False
    """The connection was refused, or is not allowed: proof that nothing was asked of anybody."""


class RefusedAddress(OSError):
    """Raised where every address of the name is one that we may not speak to."""


class HttpSession:
    """Sends single requests; holds a TLS context but no connections: nothing to close."""

    def __init__(
        self,
        rules: AddressRules,
        *,
        ca_file: Path | None = None,
        client_cert: tuple[Path, Path] | None = None,
    ) -> None:
        self._rules = rules
        self._ssl = _trusting(ca_file, "ca_file")
        if client_cert is not None:
            self._ssl.load_cert_chain(*client_cert)

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes = b"",
        deadline_s: float,
        answer_max: int = BODY_MAX,
    ) -> Answer | NoAnswer:
        """Send one request and read its answer, at most `answer_max` bytes, within `deadline_s`."""
        progress = _Progress()
        try:
            async with asyncio.timeout(deadline_s):
                return await self._exchange(method, url, headers, body, progress, answer_max)
        except TimeoutError:
            stage = "no whole answer" if progress.sent else "no connection"
            return NoAnswer(sent=progress.sent, detail=f"{stage} within {deadline_s:g} s")
        except (OSError, httpcore.NetworkError, httpcore.TimeoutException) as error:
            refused = not progress.sent and _is_refused(error)
            return NoAnswer(sent=progress.sent, detail=_reason(error), refused=refused)
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol) as error:
            return NoAnswer(sent=progress.sent, detail=f"not valid HTTP: {_reason(error)}")

    async def _exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        progress: _Progress,
        answer_max: int,
    ) -> Answer:
        parsed = httpx.URL(url)
        target = httpcore.URL(
            scheme=parsed.raw_scheme,
            host=parsed.raw_host,
            port=parsed.port,
            target=parsed.raw_path,
        )
        fields = {**_DEFAULT_HEADERS, "Host": parsed.netloc.decode("ascii"), **headers}
        if body:
            fields["Content-Length"] = str(len(body))
        backend = _CheckedBackend(self._rules)
        async with (
            httpcore.AsyncConnectionPool(
                ssl_context=self._ssl, network_backend=backend, max_keepalive_connections=0
            ) as pool,
            pool.stream(
                method,
                target,
                headers=[(name.encode(), value.encode()) for name, value in fields.items()],
                content=body,
                extensions={"trace": progress.trace},
            ) as response,
        ):
            return await _read(response, answer_max)


class _Progress:
    """Notes whether any byte of the request may have left; a request is never safer than that."""

    def __init__(self) -> None:
        self.sent = False

    async def trace(self, event: str, info: Mapping[str, object]) -> None:
        if event.endswith("send_request_headers.started"):
            self.sent = True


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    """Resolves, checks each address and connects to that very address: no second look-up to fool.

    Host and SNI keep the name, because httpcore takes both from the URL.
    """

    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))[:_ADDRESSES_MAX]
        refusals = {address: refusal(self._rules, address) for address in addresses}
        last: Exception = RefusedAddress(
            "address refused: " + "; ".join(sorted({text for text in refusals.values() if text}))
        )
        for address in (address for address, text in refusals.items() if text is None):
            try:
                return await self._inner.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last = error
        raise last


async def _read(response: httpcore.Response, longest: int) -> Answer:
    body = bytearray()
    async for chunk in response.aiter_stream():
        body += chunk
        if len(body) > longest:
            break
    return Answer(
        status=response.status,
        headers={
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in response.headers
        },
        body=bytes(body[:longest]),
        cut=len(body) > longest,
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it came from, the outermost first."""
    found: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if found is None:
            return
        yield found
        found = found.__cause__ or found.__context__


def _system(error: OSError) -> str:
    """Return `Connection refused` also where a library says in its own words what it tried."""
    known = error.errno if isinstance(error, ConnectionError) else None
    return os.strerror(known) if known else str(error.strerror)


def _is_refused(error: Exception) -> bool:
    return any(isinstance(e, (ConnectionRefusedError, RefusedAddress)) for e in _causes(error))


def _reason(error: Exception) -> str:
    """Return what the system said, where it said anything, and not what was made of it."""
    said = [_system(e) for e in _causes(error) if isinstance(e, OSError) and e.strerror]
    told = [str(e) for e in _causes(error) if str(e)]
    return one_line(next(iter((*reversed(said), *told)), type(error).__name__))


def one_line(text: str, limit: int = 200) -> str:
    """Return `text` as one printable line of at most `limit` characters, safe to log."""
    flat = "".join(c if c.isprintable() else " " for c in text[: limit * 4])
    line = " ".join(flat.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def check_url(url: str, place: str) -> str:
    """Return `url` when it can be used; ConfigError names `place` and never shows the URL.

    A webhook's path is often its password, hence no URL appears in messages.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ConfigError(f"{place} is not a URL: {error}") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ConfigError(f"{place} must be an absolute http:// or https:// URL")
    if parsed.userinfo or parsed.fragment:
        raise ConfigError(f"{place} may hold neither credentials nor a fragment; use headers")
    return url


def read_url(section: Section, key: str) -> str:
    """Return the URL of a setting; the section notes where there is none that can be used."""
    url = section.text(key)
    return section.attempt(key, lambda: check_url(url, section.place(key)), "")


def read_ca_file(section: Section) -> Path | None:
    """Return the setting `ca_file`; the section notes where it cannot be used."""
    path = section.path("ca_file")
    if path is not None:
        section.attempt("ca_file", lambda: _trusting(path, section.place("ca_file")), None)
    return path


def read_client_cert(section: Section) -> tuple[Path, Path] | None:
    """Return the settings `client_cert` and `client_key`; the section notes where they cannot be used."""
    cert, key = section.path("client_cert"), section.path("client_key")
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        section.wrong(
            "client_cert" if cert is None else "client_key", "is missing; both are needed"
        )
        return None

    def read() -> tuple[Path, Path]:
        try:
            ssl.create_default_context().load_cert_chain(cert, key)
        except (OSError, ssl.SSLError) as error:
            place = section.place("client_cert")
            raise ConfigError(f"{place} = {cert}: it cannot be used with {key}: {error}") from error
        return cert, key

    return section.attempt("client_cert", read, None)


def _trusting(ca_file: Path | None, place: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{place} = {ca_file}: it cannot be used: {error}") from error


def same_origin(one: str, other: str) -> bool:
    """Whether two absolute URLs have the same scheme, host and port."""
    try:
        a, b = httpx.URL(one), httpx.URL(other)
    except httpx.InvalidURL:
        return False
    return (a.scheme, a.host, _port(a)) == (b.scheme, b.host, _port(b)) and not b.userinfo


def _port(url: httpx.URL) -> int | None:
    return url.port or {"http": 80, "https": 443}.get(url.scheme)


def address_rules(context: DriverContext) -> AddressRules:
    """Return the context's address rules; ConfigError names a text that is not a network."""
    try:
        allow = tuple(ip_network(text) for text in context.allow_networks)
        if context.deny_networks is None:
            return AddressRules(allow=allow)
        return AddressRules(
            allow=allow, deny=tuple(ip_network(text) for text in context.deny_networks)
        )
    except ValueError as error:
        raise ConfigError(f"allow_networks, deny_networks: {error}") from error


def judge(answer: Answer) -> tuple[Delivery, str]:
    """Say what an answer means. Its body is not quoted: an error page may echo our headers."""
    line = _line(answer.status)
    if 200 <= answer.status < 300:
        return Delivery.ACCEPTED, line
    if answer.status in _AGAIN or answer.status >= 500:
        after = one_line(answer.headers.get("retry-after", ""), 40)
        return Delivery.RETRY, f"{line}, Retry-After: {after}" if after else line
    if 300 <= answer.status < 400:
        return Delivery.REFUSED, f"{line}: redirects are not followed"
    return Delivery.REFUSED, line


def _line(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def to_json(value: object) -> bytes:
    """Return compact JSON; TypeError or ValueError for what JSON cannot hold, NaN included."""
    return json.dumps(
        value, default=_plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
