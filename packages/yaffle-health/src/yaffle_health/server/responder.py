"""From the bytes of a connection to the bytes of its answer, whatever the host's code does meanwhile."""

from __future__ import annotations

import dataclasses
import logging
import time

from yaffle_health.http import Options, Refusal, Request, Response, answer, parse, refused
from yaffle_health.http.answer import HealthOf
from yaffle_health.http.response import said
from yaffle_health.server import natives

KNOWN_MAX = 64
KNOWN_BYTES_MAX = 1024
_LOG = logging.getLogger("yaffle_health")


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """What to send; `drain`: the client may still be sending."""

    data: bytes
    drain: bool


class Responder:
    """Answers; remembers requests that it has read before, since a prober never says anything new."""

    def __init__(self, health_of: HealthOf, options: Options) -> None:
        self._health_of, self._options = health_of, options
        self._known: dict[bytes, Request] = {}
        self._failed = False

    def reply(self, data: bytes, *, ended: bool = False) -> Reply | None:
        """The answer; None: the request is not whole yet."""
        request = self._known.get(data) or self._read(data, ended=ended)
        if request is None:
            return None
        if isinstance(request, Refusal):
            response = refused(request, head_only=data.startswith(b"HEAD "))
        else:
            response = self._answered(request)
        return Reply(response.encode(time.time()), response.drain)

    def _read(self, data: bytes, *, ended: bool) -> Request | Refusal | None:
        request = parse(data, ended=ended)
        if isinstance(request, Request) and len(data) <= KNOWN_BYTES_MAX:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[data] = request
        return request

    def _answered(self, request: Request) -> Response:
        try:
            response = answer(request, self._health_of, self._options)
        except Exception as error:  # noqa: BLE001 - the host's code: whatever it raises, a probe gets an answer
            self._failed = self._failed or _told(error)
            return said(500, "the health of this process cannot be told")
        self._failed = False
        return response


def _told(error: Exception) -> bool:
    if natives.is_patched():
        natives.complain(f"cannot tell the health: {type(error).__name__}")
    else:
        _LOG.error("cannot tell the health", exc_info=error)
    return True
