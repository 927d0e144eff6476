"""This process's own health, kept with yaffle-health, on the API's port and on its own sockets.

What depends on the event loop is told by the loop, every second. A process that hangs can no longer
answer on its API's port; the endpoint of the setting `healthcheck.uri` is served by another thread,
and says that the loop stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import structlog
from starlette.responses import Response

import yaffle_health
from yaffle import __version__
from yaffle.api.diagnostics.report import Check, Status
from yaffle_health import LoopLag, Manager
from yaffle_health.lag import Heart
from yaffle_health.owned import Owned, headers

if TYPE_CHECKING:
    from starlette.requests import Request

    from yaffle.config import HealthcheckSettings
    from yaffle.ports import Clock
    from yaffle_health import Endpoint

log = structlog.get_logger()

PACE_S: Final = 1.0
HUNG_S: Final = 10.0
UNHEARD_S: Final = 10
"""How long a check is believed that is told no more."""
WORDS: Final = {Status.OK: "pass", Status.WARN: "warn", Status.FAIL: "fail"}
ASKED_EACH_TIME: Final = -1


def _unreached() -> Iterable[Check]:
    # Anybody may ask for this page: what the database said is in the log.
    detail = "it has not been reached since the start; see the log"
    return [Check(name="database", status=Status.FAIL, detail=detail)]


class HealthDocument(Response):
    """The answer as the API's description shows it; other shapes have types of their own."""

    media_type = "application/health+json"


class Vitals:
    """Health of this process by its own word, from its first moment on."""

    def __init__(self, *, description: str, host: str, ttl_s: float = UNHEARD_S) -> None:
        """`description`: the command's name, as seed 4 asks for the binary's."""
        self.manager = Manager(description=description, host=host, release=__version__, ttl_s=ttl_s)
        self._owned = Owned(self.manager, cache_control=ASKED_EACH_TIME)
        self._told: set[str] = set()
        self.look: Callable[[], Iterable[Check]] = _unreached
        """What is true now; replaced once the process has more to say."""

    def refresh(self) -> None:
        """Tell what is true now; what is asked about no more is forgotten."""
        checks = list(self.look())
        for check in checks:
            self.manager.report(check.name, WORDS[check.status], check.detail)
        now = {check.name for check in checks}
        for name in self._told - now:
            self.manager.unregister(name)
        self._told = now

    def answer(self, request: Request) -> Response:
        """Answer a request for /health with what is true at this moment, in the shape asked for."""
        self.refresh()
        accept = ", ".join(request.headers.getlist("accept"))
        said = self._owned.respond(request.method, request.url.query, accept)
        return Response(
            b"" if said.head_only else said.body,
            status_code=said.status,
            headers=dict(headers(said)),
        )

    async def keep(self, clock: Clock, *, hung_s: float = HUNG_S) -> None:
        """Tell every second, and that the event loop turns, until cancelled.

        `hung_s`: a loop that is late by so much counts as failed, for those who can still be asked.
        """
        heart = Heart(
            self.manager, "event_loop", interval_s=min(PACE_S, hung_s), fail_after_s=hung_s
        )
        with LoopLag(self.manager, heart):
            while True:
                self.refresh()
                await clock.sleep(PACE_S)

    def open(self, settings: HealthcheckSettings) -> Endpoint:
        """Show it on the sockets of the settings; one that cannot be had is logged, and no more."""
        endpoint = yaffle_health.serve(
            self.manager,
            uri=settings.uri,
            ttl_s=settings.ttl,
            cache_control=settings.cache_control,
        )
        for failure in endpoint.failures:
            log.error("no health endpoint", setting="healthcheck.uri", error=str(failure))
        return endpoint
