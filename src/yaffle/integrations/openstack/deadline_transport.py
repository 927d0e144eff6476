"""Every request of a thread ends by that thread's deadline, those for tokens and catalogs included.

keystoneauth makes requests of its own accord (a token, a second one after a 401) with whatever
timeout its session has; a transport below it is the one place where all of them pass.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError

from yaffle.errors import Forbidden
from yaffle.integrations.openstack.request_policy import Passes, everything

CONNECT_S: Final = 5.0
_LEFT_MIN_S: Final = 0.05


class Deadline(threading.local):
    """The deadline of this thread's call, and whether a request of it may have arrived."""

    until_s: float = 0.0
    sent: bool = False


class ClampedAdapter(HTTPAdapter):
    """Gives each request what is left of its thread's deadline, and no more; sends what may pass."""

    def __init__(
        self,
        deadline: Deadline,
        now_s: Callable[[], float],
        *,
        connections: int,
        passes: Passes = everything,
    ) -> None:
        self._deadline = deadline
        self._now_s = now_s
        self._passes = passes
        super().__init__(pool_connections=4, pool_maxsize=connections, max_retries=0)

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: float | tuple[float | None, float | None] | None = None,
        verify: bool | str = True,
        cert: str | tuple[str, str] | None = None,
        proxies: dict[str, str] | None = None,
    ) -> requests.Response:
        """Send within what is left; raise `requests.Timeout` where nothing is left.

        Raises Forbidden for what may not pass; then nothing was sent.
        """
        left_s = self._deadline.until_s - self._now_s()
        self._deadline.sent = False
        if not self._passes(request.method or "", request.url or ""):
            raise Forbidden(
                f"{request.method} {request.url}: not sent, this cloud is only looked at"
            )
        if left_s < _LEFT_MIN_S:
            raise requests.Timeout("no time was left to send it", request=request)
        try:
            answer = super().send(
                request,
                stream=stream,
                timeout=(min(CONNECT_S, left_s), left_s),
                verify=verify,
                cert=cert,
                proxies=proxies,
            )
        except requests.RequestException as error:
            self._deadline.sent = not _never_left(error)
            raise
        self._deadline.sent = True
        if answer.status_code == requests.codes.unauthorized:
            # keystoneauth lets go of it unread where no other token is to be had.
            _ = answer.content
        return answer


@contextmanager
def within(deadline: Deadline, until_s: float) -> Iterator[None]:
    """Make `until_s` this thread's deadline for as long as the block lasts."""
    deadline.until_s, deadline.sent = until_s, False
    try:
        yield
    finally:
        deadline.until_s = 0.0


def _never_left(error: requests.RequestException) -> bool:
    """Whether there was no connection over which the request could have gone."""
    cause = error.args[0] if error.args else None
    reason = cause.reason if isinstance(cause, MaxRetryError) else cause
    return isinstance(reason, NewConnectionError | ConnectTimeoutError)
