"""HTTP transport to one server: its address, our credentials, and refusals that become our errors."""

from __future__ import annotations

import json
import os
import pwd
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self
from urllib.parse import quote, urlsplit

from yaffle.cli.client import address
from yaffle.cli.output import note
from yaffle.errors import ConfigError, DependencyError, YaffleError

if TYPE_CHECKING:
    import ssl

    import httpx

Row = Mapping[str, object]
"""One JSON object."""

TIMEOUT_S: Final = 30.0
AGAIN_S: Final = 1.0
AGAIN_MAX_S: Final = 10.0
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class ServerAway(DependencyError):
    """Raised where nobody answers at the server's address."""


class Dropped(ServerAway):
    """Raised where the server went away in the middle of the answer."""


class Refused(YaffleError):
    """The server said no; `status` is its HTTP status, `kind` the type of its error."""

    status: ClassVar[int] = 500

    def __init__(
        self,
        status: int,
        message: str,
        problems: tuple[str, ...] = (),
        *,
        hint: str = "",
        kind: str = "",
        again_s: float | None = None,
    ) -> None:
        self.status = status  # type: ignore[misc]
        self.again_s = again_s
        """When the server wants to be asked again; None where it does not."""
        self.problems = problems
        self.kind = kind
        super().__init__("\n".join(problems) if problems else message, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A server's answer."""

    body: Row
    location: str = ""
    """Where the answer points to: an object, or the action that does what was asked."""


class Wire:
    """The transport to one server, as a context manager. `ask` raises ServerAway and Refused."""

    def __init__(
        self,
        server: str | None = None,
        token_file: Path | None = None,
        *,
        os_cloud: str | None = None,
        folder: Path | None = None,
    ) -> None:
        """`os_cloud`: the cloud of clouds.yaml whose Keystone says who we are.

        `folder`: the state directory of the server that is meant; no other one will do. Raises
        ServerAway where none runs there, and ConfigError for a cloud that is not set up.
        """
        # None: not to be imported. It is httpx's own command line and loads rich, 0.06 s of CPU.
        sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
        import httpx

        auth: httpx.Auth | None = None
        if os_cloud:
            from yaffle.cli.client.keystone import KeystoneAuth

            auth = known = KeystoneAuth(os_cloud)
            server = server or (None if folder is not None else known.endpoint())
        # Whoever names a folder means its server: at the usual address may be another installation's.
        folder = folder or address.named()
        card = None if server else address.read(folder or address.state_dir())
        if folder is not None and not server and card is None:
            raise ServerAway(
                f"no server of the state directory {folder} runs on this machine, or not yet; start it"
                " with `yaffle serve`, or name another with --server URL or YAFFLE_SERVER"
            )
        self.url = _checked(server or (card.url if card else address.DEFAULT_SERVER))
        of_card = Path(card.token_file) if card is not None and card.token_file else None
        headers = {"X-Yaffle-User": _user(), "User-Agent": "yaffle"}
        name, password = os.environ.get("YAFFLE_USER"), os.environ.get("YAFFLE_PASSWORD")
        # The file that was named, else a name and password, else the file of the running server.
        if auth is not None:
            pass
        elif token_file is None and name and password:
            from yaffle.cli.client.session import SessionAuth

            auth = SessionAuth(self.url, name, password)
        elif token := _token(token_file or of_card):
            headers["Authorization"] = f"Bearer {token}"
        self._http = httpx.Client(
            base_url=self.url,
            headers=headers,
            auth=auth,
            timeout=TIMEOUT_S,
            verify=_trust(self.url, card.certificate if card is not None else None),
            # A proxy for the world is no way to one's own machine.
            trust_env=urlsplit(self.url).hostname not in _LOOPBACK,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ask(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        body: Row | None = None,
        query: Row | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request; parts of the path but the first are quoted here.

        Absent values of the query are left out, lists repeat their name. A read that the server
        cannot answer right now is sent again when it says, within the command's time limit; one of
        several servers behind the address that ends in the middle of it costs one more request.
        """
        target = "/".join((path[0], *(quote(part, safe="") for part in path[1:])))
        call = partial(
            self._http.request,
            method,
            target,
            params=_query(query or {}),
            json=body,
            headers=headers,
        )
        if method != "GET":
            return self._once(call, f"{method} {target}")
        return self._patiently(lambda: self._once(call, f"{method} {target}"))

    def _patiently(self, read: Callable[[], Answer]) -> Answer:
        from yaffle.cli.client.deadlines import limit, pause

        deadline = limit(TIMEOUT_S)
        told = dropped = False
        while True:
            try:
                return read()
            except Dropped:
                if dropped:
                    raise
                dropped = True
            except Refused as no:
                if no.again_s is None or deadline.left_s < no.again_s:
                    raise
                if not told:
                    note(f"{no}; asking again")
                told = True
                pause(no.again_s)

    def _once(self, call: Callable[[], httpx.Response], what: str) -> Answer:
        import httpx

        try:
            answer = call()
        except httpx.TimeoutException:
            raise ServerAway(
                f"server {self.url}: no answer within {TIMEOUT_S:g} s to {what};"
                " whether it was done is unknown: look before you ask again"
            ) from None
        except (httpx.RemoteProtocolError, httpx.ReadError) as error:
            raise Dropped(
                f"server {self.url}: it ended the connection in the middle of {what}"
                f" ({str(error) or type(error).__name__}); whether it was done is unknown"
            ) from None
        except httpx.TransportError as error:
            raise ServerAway(
                f"server {self.url}: {str(error) or type(error).__name__}; start it with `yaffle serve`,"
                f" or name another with --server URL or YAFFLE_SERVER{_tls_advice(error)}"
            ) from None
        return Answer(body=self._read(answer), location=answer.headers.get("location", ""))

    def _read(self, answer: httpx.Response) -> Row:
        # A page is what clients of the clustering API get where there is nothing to say.
        page = answer.headers.get("content-type", "").startswith("text/html")
        if answer.is_success and (page or answer.content in {b"", b"null"}):
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
                # What stands before the servers says so where none of them is well.
                again_s=_again_s(answer) or (AGAIN_S if answer.status_code == 503 else None),
            )
        raise _refused(answer.status_code, fault, _again_s(answer))


def _again_s(answer: httpx.Response) -> float | None:
    """Return when the server wants to be asked again; None where it does not say so in seconds."""
    after = answer.headers.get("retry-after", "")
    if answer.status_code not in {429, 503} or not after.isdecimal():
        return None
    return min(max(float(after), AGAIN_S / 10), AGAIN_MAX_S)


def _query(asked: Row) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value in asked.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        texts = [str(one) for one in values if one is not None]
        if texts:
            found[key] = texts
    return found


def _refused(status: int, fault: Row, again_s: float | None) -> Refused:
    problems = fault.get("problems")
    lines = tuple(str(p) for p in problems) if isinstance(problems, list) else ()
    message = str(fault.get("message") or fault.get("title") or f"HTTP {status}")
    if status == 401:
        message = message.rstrip(".") + (
            "; give the token with YAFFLE_TOKEN or --token-file, a name and password with YAFFLE_USER"
            " and YAFFLE_PASSWORD, or a cloud of clouds.yaml with --os-cloud"
        )
    return Refused(
        status,
        message,
        lines,
        hint=str(fault.get("hint") or ""),
        kind=str(fault.get("type") or ""),
        again_s=again_s,
    )


def _tls_advice(error: Exception) -> str:
    if "CERTIFICATE_VERIFY_FAILED" not in str(error):
        return ""
    return "; YAFFLE_CA_FILE names the authority that its certificate is judged by"


def _trust(url: str, of_card: str | None) -> ssl.SSLContext:
    """Return whom we believe to be the server: who an authority says, or the one of this machine."""
    import ssl

    if not url.startswith("https:"):
        # Nobody has to be believed; to load the authorities of the world costs 0.08 s of CPU.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authorities = os.environ.get("YAFFLE_CA_FILE") or None
    mine, key = os.environ.get("YAFFLE_CLIENT_CERTIFICATE"), os.environ.get("YAFFLE_CLIENT_KEY")
    try:
        context = ssl.create_default_context(cafile=authorities)
        if of_card is not None and authorities is None:
            # The very certificate that the running server shows, from the file that it names in a
            # folder of ours: no name has to fit, and nobody else has its key.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.load_verify_locations(cadata=_first(Path(of_card)))
        if mine:
            context.load_cert_chain(mine, key or None, password=lambda: "")
    except (OSError, ValueError) as error:
        named = ", ".join(filter(None, (authorities or of_card, mine, key)))
        raise ConfigError(
            f"server {url}: {getattr(error, 'strerror', None) or error} ({named}); YAFFLE_CA_FILE,"
            " YAFFLE_CLIENT_CERTIFICATE and YAFFLE_CLIENT_KEY name PEM files"
        ) from None
    return context


def _first(path: Path) -> str:
    """Return the first certificate of a file: that of the server itself."""
    end = "-----END CERTIFICATE-----"
    first, found, _ = path.read_text(encoding="ascii", errors="replace").partition(end)
    return first + found


def _checked(server: str) -> str:
    try:
        parts = urlsplit(server)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"--server {server!r} is no address; write http://127.0.0.1:8777")
    return server.rstrip("/")


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
