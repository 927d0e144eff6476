"""The requests of one call: made in a thread of the cloud's pool, all of them within one deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from yaffle.integrations.openstack.faults import CloudBusy, CloudUnavailable, fault_of
from yaffle.model.msgspec_init import MISREAD, UNREADABLE

if TYPE_CHECKING:
    from keystoneauth1.session import Session

    from yaffle.integrations.openstack.deadline_transport import Deadline

T = TypeVar("T")

BODY_MAX: Final = 64 * 1024 * 1024
_CHUNK: Final = 256 * 1024
_ACT_MIN_S: Final = 0.3
"""Nothing that changes anything is sent with less time than this to read the answer."""
_UNKNOWN: Final = 401
_ERROR_MAX: Final = 200
REQUEST_ID: Final = "X-Openstack-Request-Id"
_decoders: dict[type, msgspec.json.Decoder[object]] = {}
"""One for each shape of an answer; made one after the other, see `yaffle.model.msgspec_init`."""
_making: Final = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A 2xx: the body as it came, and the service's own id of the request."""

    status: int
    body: bytes
    request_id: str

    def parsed(self, kind: type[T]) -> T:
        """Return the body as `kind`; what cannot be read is as good as no answer.

        Raises CloudUnavailable, which names the request and what came instead, and quotes nothing of
        it: an answer may hold a password.
        """
        try:
            return cast("T", _decoder(kind).decode(self.body))
        except UNREADABLE as error:
            raise CloudUnavailable(
                f"the cloud's answer cannot be read: {_shape(self.body, error)}"
                f" (HTTP {self.status}, {self.request_id or 'without a request id'})",
                sent=True,
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The places of services: in the catalog, unless the operator knows better."""

    filter: Mapping[str, str]
    """Interface and region."""
    override: Callable[[str], str | None] = lambda _: None
    """Takes a type of service and returns its address; None where the catalog has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Our identity in the cloud; names may be empty."""

    user: str
    project: str
    project_id: str
    roles: tuple[str, ...]


class Client:
    """Methods block, and raise what `faults` says; never used outside the thread it was made for."""

    def __init__(
        self,
        session: Session,
        deadline: Deadline,
        now_s: Callable[[], float],
        where: Places,
    ) -> None:
        self._session = session
        self._deadline = deadline
        self._now_s = now_s
        self._where = where
        self.not_let_in: Exception | None = None
        """What Keystone's refusal to give a token came as: services answer, only that is raised."""
        self.let_in = False
        """Whether a service has answered to our token, and not that it is worth nothing."""

    def left_s(self) -> float:
        """Seconds until the call has to be over."""
        return self._deadline.until_s - self._now_s()

    @contextmanager
    def patient(self, left_s: float) -> Iterator[None]:
        """Have so many seconds from now for what is asked in the block; afterwards none is left.

        For what goes on for others when who asked for it has stopped waiting.
        """
        until_s = self._deadline.until_s
        self._deadline.until_s = max(until_s, self._now_s() + left_s)
        try:
            yield
        finally:
            self._deadline.until_s = until_s

    @property
    def project_id(self) -> str:
        """The project that the token is for; may fetch a token first."""
        return self._guarded(self._session.get_project_id) or ""

    @property
    def user_id(self) -> str:
        """Return our user's id in the cloud; may fetch a token first."""
        return self._guarded(self._session.get_user_id) or ""

    @property
    def token(self) -> str:
        """Our own token, for `keystone`; may fetch one first."""
        return self._guarded(self._session.get_token) or ""

    def place(self, service: str) -> str:
        """Return a service's address; empty where the catalog has none. May fetch a token first."""
        from keystoneauth1.exceptions import EndpointNotFound  # noqa: PLC0415 - loaded by now

        given = self._where.override(service)
        where: dict[str, Any] = {"service_type": service, **self._where.filter}

        def look() -> str:
            try:
                return str(self._session.get_endpoint(**where) or "")
            except EndpointNotFound:
                return ""

        return given or self._guarded(look)

    @property
    def identity(self) -> Identity:
        """Return our identity in words; may fetch a token first."""

        def told() -> Identity:
            from keystoneauth1.identity.base import BaseIdentityPlugin  # noqa: PLC0415

            auth = self._session.auth
            if not isinstance(auth, BaseIdentityPlugin):
                return Identity(user="", project="", project_id="", roles=())
            access = auth.get_access(self._session)
            return Identity(
                user=access.username or "",
                project=access.project_name or "",
                project_id=access.project_id or "",
                roles=tuple(sorted(access.role_names or ())),
            )

        return self._guarded(told)

    def get(
        self,
        service: str,
        path: str,
        *,
        version: str | None = None,
        query: Mapping[str, str | int] | None = None,
    ) -> Answer:
        """Read something; `version` is the microversion."""
        return self._request("GET", service, path, version=version, query=query)

    def act(
        self,
        method: str,
        service: str,
        path: str,
        *,
        body: object = None,
        version: str | None = None,
        trace: str | None = None,
    ) -> Answer:
        """Change something; `trace` (`req-` and a UUID) is what the cloud's own logs will name it."""
        if self.left_s() < _ACT_MIN_S:
            raise CloudBusy(f"{method} {path}: too late to send it")
        return self._request(method, service, path, body=body, version=version, trace=trace)

    def keystone(
        self, method: str, path: str, *, token: str, body: object = None, about: str = ""
    ) -> Answer:
        """Ask Keystone something with a token of somebody else's; `about` that one, if any."""
        headers = {"X-Auth-Token": token, **({"X-Subject-Token": about} if about else {})}
        return self._request(method, "identity", path, body=body, theirs=headers)

    def _keystone(self) -> str:
        """Return Keystone's address, where we ourselves have our tokens from."""
        url = str(getattr(self._session.auth, "auth_url", "")).rstrip("/")
        return url if url.endswith("/v3") else f"{url}/v3"

    def _request(
        self,
        method: str,
        service: str,
        path: str,
        *,
        body: object = None,
        version: str | None = None,
        query: Mapping[str, str | int] | None = None,
        trace: str | None = None,
        theirs: Mapping[str, str] | None = None,
    ) -> Answer:
        what = f"{method} {service} {path}"
        # What only reads has no effect, arrived or not.
        acts = method != "GET"

        def send() -> Answer:
            response = self._session.request(
                path,
                method,
                json=body,
                params=dict(query or {}),
                endpoint_filter={"service_type": service, **self._where.filter},
                endpoint_override=self._keystone() if theirs else self._where.override(service),
                microversion=version,
                headers={**({REQUEST_ID: trace} if trace else {}), **(theirs or {})},
                # With somebody else's token neither ours is added nor another one fetched.
                authenticated=not theirs,
                raise_exc=False,
                redirect=False,
                log=False,
                stream=True,
            )
            with response:
                chunks: list[bytes] = []
                size = 0
                for chunk in response.iter_content(_CHUNK):
                    chunks.append(chunk)
                    size += len(chunk)
                    # A read timeout is between two bytes: one that drips would hold the thread.
                    if size > BODY_MAX or self.left_s() <= 0:
                        raise CloudUnavailable(f"{what}: too much, or too slow", sent=acts)
                answer = Answer(
                    status=response.status_code,
                    body=b"".join(chunks),
                    request_id=response.headers.get(REQUEST_ID, ""),
                )
            self.let_in |= not theirs and answer.status != _UNKNOWN
            if 200 <= answer.status < 300:
                return answer
            raise fault_of(answer.status, answer.body, what, acts=acts)

        return self._guarded(send, acts=acts)

    def _guarded(self, work: Callable[[], T], *, acts: bool = False) -> T:
        """Do `work`; turn every way in which the libraries fail to ask into CloudUnavailable."""
        import requests  # noqa: PLC0415 - with keystoneauth, which is loaded by now
        from keystoneauth1.exceptions import ClientException, HttpError  # noqa: PLC0415

        try:
            return work()
        except (ClientException, requests.RequestException, OSError) as error:
            text = " ".join(str(error).split())[:400] or type(error).__name__
            # What is not let in was not sent; and a service that answers 401 has not acted.
            let_in = not isinstance(error, HttpError)
            if not let_in:
                self.not_let_in = error
            raise CloudUnavailable(text, sent=acts and let_in and self._deadline.sent) from error
        except MISREAD as error:
            # An answer of Keystone, or the page of a service's versions, that is JSON and not that.
            text = (
                f"what Keystone or the catalog says cannot be read: {type(error).__name__}: {error}"
            )
            raise CloudUnavailable(text[:400], sent=acts and self._deadline.sent) from error


def _shape(body: bytes, error: Exception) -> str:
    """Return what it is that cannot be read, for a person."""
    match error:
        case _ if not body.strip():
            return "it is empty"
        case _ if body.lstrip()[:1] == b"<":
            return "it is a page, as of a proxy or a log-in, and no JSON"
        case UnicodeDecodeError():
            return "it is not UTF-8"
        case RecursionError():
            return "it is nested too deep"
        case _:
            return " ".join(str(error).split())[:_ERROR_MAX]


def _decoder(kind: type) -> msgspec.json.Decoder[object]:
    """Return what reads that shape: threads of the pool may ask for one at the same time."""
    if (found := _decoders.get(kind)) is None:
        with _making:
            found = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    return found
