"""The access middleware: who may ask, from where, and how much (design/interfaces).

A web page that somebody on this machine visits can send requests to loopback. So names that are
not ours (DNS rebinding), pages of other sites, and bodies that a plain form could send are turned
away before anything else looks at them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
from typing import TYPE_CHECKING, Final

from yaffle.api.auth.port import Given, Known
from yaffle.api.errors.refusals import Refused, answer, is_clustering, is_instance_ha
from yaffle.api.http.client_shares import share_of
from yaffle.api.http.request_lanes import Lanes, Lent, is_urgent
from yaffle.api.rights import NOBODY, OPEN, Needs, needed
from yaffle.config import is_loopback, split_address
from yaffle.errors import DependencyError, Forbidden, TooManyRequests
from yaffle.model.authz import Right, need

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from yaffle.api.auth import Identity
    from yaffle.api.auth.keystone.trusts import Trusts
    from yaffle.api.http.connection import Connection
    from yaffle.config import ServerSettings
    from yaffle.engine.commands.tenancy import Tenancy

CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
FOREIGN_SITES: Final = frozenset({"cross-site", "same-site"})
BODY_S: Final = 30.0
"""A body that takes longer than this to arrive is not worth a connection."""
BODIES_MAX: Final = 64 * 1024 * 1024
AGAIN: Final = (("Retry-After", "1"),)
PLAIN: Final[tuple[list[str], ...]] = ([], ["text/plain"])
"""Media types that OpenStack's clients send beside JSON's: none, and this."""
WORD_MAX: Final = 255
UNASKED: Final = Known(who=NOBODY)


class AccessControl:
    """Wraps an ASGI application; leaves `yaffle.who` in the scope of what it lets through.

    `yaffle.user` is the same name where it is proved, else "".
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        server: ServerSettings,
        identity: Identity,
        trusts: Trusts | None = None,
        tenancy: Tenancy | None = None,
    ) -> None:
        self._app = app
        self._identity = identity
        self.trusts = trusts
        """Known only once the database is open, where users' leave is written down."""
        self.tenancy = tenancy
        """Known only once the drivers are there; until then there is nothing behind this gate."""
        self._max_body = server.max_body
        self._lanes = Lanes()
        self._held = 0
        """Bytes of bodies that have arrived and are not dealt with."""
        self._names = {_plain(name) for name in server.allowed_hosts}
        self._names.add(_plain(split_address(server.listen)[0]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through or say why not."""
        headers = _Headers(scope)
        try:
            _reserve(scope)
            self._host(scope, headers)
            _site(headers)
            needs = needed(scope["method"], scope["path"])
            known = await self._known(scope, headers, needs)
            if needs != OPEN:
                # Where nobody has to say who they are, there is no name to be misused: webhooks
                # are called by whatever an alarm system or a shell sends.
                _media(scope, headers)
            self._announced(scope, headers)
            await self._admitted(known, needs)
            # Whole before anything is done for it: who sends slowly holds a connection, and no more.
            body = await self._body(scope, receive)
        except Refused as no:
            await answer(scope, no)(scope, receive, send)
            return
        scope["yaffle.who"] = known.who
        scope["yaffle.known"], scope["yaffle.sessions"] = known, self._identity.sessions
        scope["yaffle.needs"] = needs
        try:
            await self._inside(scope, body, send)
        finally:
            self._held -= len(body)

    async def _inside(self, scope: Scope, body: _Body, send: Send) -> None:
        """Serve who has been let in, when there is a place."""
        lane, caller = self._lanes.of(scope["path"]), _caller(scope)
        try:
            await lane.enter(caller)
        except DependencyError as busy:
            no = Refused(busy.status, str(busy), headers=AGAIN)
            await answer(scope, no)(scope, body.receive, send)
            return
        try:
            lent = Lent(lane, caller, _connection(scope), send)
            await self._app(scope, body.receive, lent.send)
        finally:
            lane.leave(caller)

    def _host(self, scope: Scope, headers: _Headers) -> None:
        given = headers.all("host")
        if len(given) != 1:
            raise Refused(400, "exactly one Host header is needed")
        name = _host_name(given[0])
        local = scope.get("server")
        mine = {_plain(str(local[0]))} if local else set()
        if name is None or not (is_loopback(name) or name in self._names | mine):
            raise Refused(
                421,
                f"the host {given[0][:100]!r} is not ours; if it is, add it to server.allowed_hosts",
            )

    async def _known(self, scope: Scope, headers: _Headers, needs: Needs | None) -> Known:
        """Return who asks, with every right that the route needs."""
        if needs == OPEN:
            return UNASKED
        try:
            known = await self._identity.who(_given(scope, headers))
        except (DependencyError, TooManyRequests) as later:
            after_s = later.retry_after_s if isinstance(later, TooManyRequests) else 1
            again = [("Retry-After", str(math.ceil(after_s)))]
            raise Refused(later.status, str(later), headers=again) from None
        if known is None:
            raise Refused(
                401,
                "this server needs a token (Authorization: Bearer …, a line of server.token_file;"
                " X-Auth-Token with server.keystone) or a name and password (HTTP basic, a line of"
                " server.users_file)",
                headers=[("WWW-Authenticate", c) for c in self._identity.challenges],
            )
        # Before it is refused, so that the logs can name who tried.
        scope["yaffle.asked_by"] = known.who
        scope["yaffle.user"] = known.who.user if known.proved else ""
        try:
            for right in sorted(needs or ()):
                need(known.who, right)
        except Forbidden as no:
            raise Refused(no.status, str(no), hint=no.hint) from None
        return known

    async def _admitted(self, known: Known, needs: Needs | None) -> None:
        """Refuse projects that are not served; have who changes something let us act for them."""
        trusted = known.token and Right.WRITE in (needs or ())
        try:
            # Whatever the route: one that is new must not be a way around it.
            if self.tenancy is not None and needs != OPEN:
                await self.tenancy.admit(known.who)
            if self.trusts is not None and trusted:
                await self.trusts.ensured(known)
        except (Forbidden, DependencyError) as no:
            retry = [("Retry-After", "1")] if isinstance(no, DependencyError) else []
            raise Refused(no.status, str(no), hint=no.hint, headers=retry) from None

    def _announced(self, scope: Scope, headers: _Headers) -> None:
        for length in headers.all("content-length"):
            if length.isdigit() and int(length[:20]) > self._max_body:
                raise Refused(_too_much(scope), _too_large(self._max_body))

    async def _body(self, scope: Scope, receive: Receive) -> _Body:
        """Return the body once it is there: within its size, and within `BODY_S` as a whole."""
        data = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                more = True
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Refused(400, "the body ended too soon")
                    data += message.get("body", b"")
                    if len(data) > self._max_body:
                        raise Refused(_too_much(scope), _too_large(self._max_body))
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refused(408, f"the body did not arrive within {BODY_S:g} s") from None
        if self._held + len(data) > BODIES_MAX:
            raise Refused(503, "too many large bodies at once", headers=AGAIN)
        self._held += len(data)
        return _Body(bytes(data), receive)


class _Headers:
    """The headers of one request; a name may come twice, which is an answer of its own."""

    def __init__(self, scope: Scope) -> None:
        self._pairs = scope["headers"]

    def all(self, name: str) -> list[str]:
        """Return every value of a header."""
        wanted = name.encode()
        return [value.decode("latin-1") for key, value in self._pairs if key.lower() == wanted]

    def one(self, name: str) -> str:
        """Return the value of a header that came exactly once; else ""."""
        found = self.all(name)
        return found[0] if len(found) == 1 else ""


def _site(headers: _Headers) -> None:
    """Refuse what a page of another site asks."""
    hosts = headers.all("host")
    for origin in headers.all("origin"):
        if origin.partition("://")[2] not in hosts:
            raise Refused(403, f"pages of {origin[:100]!r} may not speak to this server")
    if any(s.strip().lower() in FOREIGN_SITES for s in headers.all("sec-fetch-site")):
        raise Refused(403, "pages of other sites may not speak to this server")


def _given(scope: Scope, headers: _Headers) -> Given:
    client = scope.get("client")
    name = headers.one("x-yaffle-user").strip()[:WORD_MAX]
    return Given(
        authorization=headers.one("authorization"),
        auth_token=headers.one("x-auth-token"),
        name=name if name.isprintable() else "",
        peer=str(client[0]) if client else "",
    )


def _media(scope: Scope, headers: _Headers) -> None:
    """Refuse bodies that a form of a foreign page could send without asking."""
    sized = any(length.strip("0") for length in headers.all("content-length"))
    if scope["method"] not in CHANGING or not (sized or headers.all("transfer-encoding")):
        return
    kinds = [k.partition(";")[0].strip().lower() for k in headers.all("content-type")]
    path = scope["path"]
    foreign = is_clustering(path) or is_instance_ha(path)
    plain = kinds in PLAIN and foreign and _is_no_page(headers)
    if kinds != ["application/json"] and not plain:
        raise Refused(415, "a body needs Content-Type: application/json")


def _is_no_page(headers: _Headers) -> bool:
    """Whether no browser has sent this: each names the page's origin with whatever changes anything."""
    return not (headers.all("origin") or headers.all("sec-fetch-site"))


class _Body:
    """A body that has arrived, received by the application in one piece."""

    def __init__(self, data: bytes, receive: Receive) -> None:
        self._data = data
        self._receive = receive
        self._given = False

    def __len__(self) -> int:
        """Return its size in bytes."""
        return len(self._data)

    async def receive(self) -> Message:
        """Return the body, then whatever happens next."""
        if self._given:
            return await self._receive()
        self._given = True
        return {"type": "http.request", "body": self._data, "more_body": False}


def _caller(scope: Scope) -> str:
    """Return whose share of the server a request uses."""
    client = scope.get("client")
    return share_of(str(client[0])) if client else ""


def _connection(scope: Scope) -> Connection | None:
    found: Connection | None = scope.get("state", {}).get("yaffle.connection")
    return found


def _reserve(scope: Scope) -> None:
    """Keep the last places for what must be answered at any time."""
    connection = _connection(scope)
    if connection is not None and connection.narrow and not is_urgent(scope["path"]):
        raise Refused(503, "too many connections at once; try again in a second", headers=AGAIN)


def _too_much(scope: Scope) -> int:
    """Return the status for too large a body; Senlin says 400."""
    return 400 if is_clustering(scope["path"]) else 413


def _too_large(most: int) -> str:
    return f"the body is larger than server.max_body = {most} bytes"


def _host_name(value: str) -> str | None:
    """Return the name in a Host header without its port; None if it is none."""
    text = value.strip()
    if text.startswith("["):
        name, bracket, port = text[1:].partition("]")
        if not bracket:
            return None
        port = port.removeprefix(":")
    else:
        name, _, port = text.partition(":")
    if not name or (port and not port.isdigit()):
        return None
    return _plain(name)


def _plain(host: str) -> str:
    """Return one spelling of a host: lower case, no brackets, no final dot, IPs in their short form."""
    text = host.strip().lower().strip("[]").rstrip(".")
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text
