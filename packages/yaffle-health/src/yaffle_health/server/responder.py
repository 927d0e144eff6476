"""From the bytes of a connection to the bytes of its answer, whatever the host's code does meanwhile.

A prober says the same every time, and mostly gets the same. So requests are remembered, and so is the
last answer to each: it is sent again while its second lasts and nothing that it shows has changed.
The health is asked for each time; a manager says by giving the same object that nothing has changed.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable

from yaffle_health.errors import UnknownGroup
from yaffle_health.http import Options, Question, Refusal, Response, parse, refused, respond, route
from yaffle_health.http.answer import HealthOf, no_such_group
from yaffle_health.http.response import said
from yaffle_health.model import Health
from yaffle_health.server import natives
from yaffle_health.views import Shape, shown

KNOWN_MAX = 64
KNOWN_BYTES_MAX = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """What to send; `drain`: the client may still be sending."""

    data: bytes
    drain: bool


class _Known:
    """A request that was read before, and its last answer: of which health, and of which second."""

    __slots__ = ("health", "question", "reply", "response", "second", "showing")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.health: Health | None = None
        self.showing: object = None
        self.response: Response | None = None
        self.second = 0
        self.reply: Reply | None = None


class Responder:
    """Answers every request, also where the host's code raises."""

    def __init__(
        self,
        health_of: HealthOf,
        options: Options,
        *,
        seen_of: HealthOf | None = None,
        complain: Callable[[Exception], None] | None = None,
    ) -> None:
        """`seen_of` gives the same object while nothing new is to be seen; a manager has its own.

        `complain` is told when `health_of` begins to raise; by default it logs.
        """
        self._health_of, self._options = health_of, options
        self._seen_of = seen_of or _seen_of(health_of)
        self._complain = complain or complain_of
        self._known: dict[bytes, _Known] = {}
        self._failed = False

    def reply(self, data: bytes, *, ended: bool = False) -> Reply | None:
        """The answer; None: the request is not whole yet."""
        known = self._known.get(data)
        if known is not None:
            return self._told(known)
        request = parse(data, ended=ended)
        if request is None:
            return None
        if isinstance(request, Refusal):
            return _encoded(refused(request, head_only=data.startswith(b"HEAD ")))
        question = route(request, self._options)
        if isinstance(question, Response):
            return _encoded(question)
        return self._told(self._remembered(data, question))

    def _remembered(self, data: bytes, question: Question) -> _Known:
        known = _Known(question)
        if len(data) <= KNOWN_BYTES_MAX:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[data] = known
        return known

    def _told(self, known: _Known) -> Reply:
        question = known.question
        try:
            if self._options.cache_cap or question.shape is Shape.PROMETHEUS:
                # These show ages, which never stand still.
                health = self._health_of(question.group)
                reply = _encoded(respond(question, health, self._options))
            else:
                reply = self._again(known, self._seen_of(question.group))
        except UnknownGroup as error:
            return _encoded(no_such_group(question, error))
        except Exception as error:  # noqa: BLE001 - the host's code: whatever it raises, a probe gets an answer
            if not self._failed:
                self._complain(error)
            self._failed = True
            return _encoded(said(500, "the health of this process cannot be told"))
        self._failed = False
        return reply

    def _again(self, known: _Known, health: Health) -> Reply:
        """The last reply, or as much of a new one as is needed: its date, or all of it."""
        now_s = time.time()
        second = int(now_s)
        response = known.response
        if response is None or health is not known.health:
            showing = shown(health)
            if response is None or showing != known.showing:
                response = respond(known.question, health, self._options)
                known.response, known.reply = response, None
            known.health, known.showing = health, showing
        reply = known.reply
        if reply is None or second != known.second:
            reply = known.reply = Reply(response.encode(now_s), response.drain)
            known.second = second
        return reply


def _seen_of(health_of: HealthOf) -> HealthOf:
    """How to ask for what is to be seen: a manager need not work it all out again."""
    # Not imported: whoever has a manager has imported it, and a helper has none.
    if "yaffle_health.manager" not in sys.modules:
        return health_of
    from yaffle_health.manager import Manager

    manager = getattr(health_of, "__self__", None)
    if isinstance(manager, Manager) and health_of == manager.health:
        return manager.seen
    return health_of


def _encoded(response: Response) -> Reply:
    return Reply(response.encode(time.time()), response.drain)


def complain_of(error: Exception) -> None:
    """Log, once for each time that it begins, that the host's code raised."""
    if natives.is_patched():
        natives.complain(f"cannot tell the health: {type(error).__name__}")
        return
    import logging

    logging.getLogger("yaffle_health").error("cannot tell the health", exc_info=error)
