"""Rotates trusts: those that newer ones replace are deleted in the background.

A trust lasts until somebody deletes it, and so whoever had to trust us anew would trust us twice, the
first time for ever. It is done with the token that made the newer one, or of the user's next change,
held for as long as it takes and no longer; what nobody came back for is done with its own (see
`trust_cleanup`), by whichever process comes along, so that none is needed that was there before. What
could not be deleted is kept with the reason, and told by `yaffle credential list` and `yaffle doctor`.

How long ago a trust was replaced is written with it, by the database's clock: another process may
have replaced it a moment ago, and engines go on for a while with what they last looked up.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.api.auth.keystone.trust_cleanup import by_its_user, by_itself
from yaffle.errors import YaffleError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.api.auth.port import Known
    from yaffle.engine.runtime.stored_credentials import StoredCredentials
    from yaffle.integrations.openstack import Cloud
    from yaffle.ports import Clock

log = structlog.get_logger(__name__)

SETTLED_S: Final = 15.0
"""So long engines may go on with what they last looked up: a little more than `projects.FRESH_S`."""
QUEUE: Final = 256
"""Users who wait for it; one who finds no place is not waited for: see `ABANDONED_S`."""
ABANDONED_S: Final = 60.0
"""Replaced so long ago and still there: nobody is at it with its user's token."""
REST_S: Final = 600.0
"""Between two attempts of one that Keystone gives no token for, whoever tries."""
SWEEP_S: Final = 30.0
AT_MOST: Final = 20
"""In one sweep: Keystone has others to answer to."""

_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    known: Known
    at_s: float
    """Monotonic."""


class Superseded:
    """The trusts that are to be deleted, and the two loops that do: with users' tokens, and without."""

    def __init__(
        self,
        kept: StoredCredentials,
        clouds: Mapping[str, Cloud],
        clock: Clock,
        *,
        settled_s: float = SETTLED_S,
    ) -> None:
        self._kept = kept
        self._clouds = clouds
        self._clock = clock
        self._settled_s = settled_s
        self._waiting: OrderedDict[_Key, _Due] = OrderedDict()
        self._more = asyncio.Event()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def offer(self, cloud: str, known: Known) -> None:
        """Let a user's token be used for what of theirs is to be deleted; waits for nothing."""
        self._wait((cloud, known.who.project, known.who.user), known, self._clock.monotonic_s())

    def _wait(self, key: _Key, known: Known, at_s: float) -> None:
        if key in self._waiting or len(self._waiting) >= QUEUE:
            return
        self._waiting[key] = _Due(known=known, at_s=at_s)
        self._more.set()

    async def run(self) -> None:
        """Delete until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._by_their_users(), name="trusts-offered")
            group.create_task(self._by_themselves(), name="trusts-abandoned")

    # --- with the tokens of users ---------------------------------------------------------------

    async def _by_their_users(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                key, due = min(self._waiting.items(), key=lambda item: item[1].at_s)
                if (left_s := due.at_s - self._clock.monotonic_s()) > 0:
                    await self._clock.sleep(left_s)
                del self._waiting[key]
                try:
                    again_s = await self._tidied(key, due.known)
                except Exception:
                    # The engine lives beside this: a trust that stays is no reason to end it.
                    log.exception("superseded trusts not deleted", cloud=key[0], user=key[2])
                    continue
                if again_s is not None:
                    self._wait(key, due.known, again_s)

    async def _tidied(self, key: _Key, known: Known) -> float | None:
        """Delete what engines have let go of; return when to look again (monotonic), if at all."""
        try:
            found = await self._kept.superseded(*key)
        except YaffleError as error:
            log.info("superseded trusts not looked up", user=key[2], reason=str(error))
            return None
        now_s = self._clock.monotonic_s()
        fresh = [self._settled_s - one.since_s for one in found if one.since_s < self._settled_s]
        for one in found:
            if one.since_s >= self._settled_s:
                why = await by_its_user(self._clouds[key[0]], known.token, one.reference)
                await self._done(key, one.reference, why)
        # No longer than that: a clock that went back would have us keep the token for hours.
        return now_s + min(*fresh, self._settled_s) if fresh else None

    # --- without ---------------------------------------------------------------------------------

    async def _by_themselves(self) -> None:
        while True:
            try:
                await self._swept()
            except Exception:
                # As above.
                log.exception("abandoned trusts not deleted")
            await self._clock.sleep(SWEEP_S)

    async def _swept(self) -> None:
        # Those of a cloud that no driver has any more are told, and left.
        clouds, for_s = list(self._clouds), max(ABANDONED_S, self._settled_s)
        try:
            found = await self._kept.abandoned(clouds, for_s=for_s, rest_s=REST_S, most=AT_MOST)
        except YaffleError as error:
            log.info("abandoned trusts not looked up", reason=str(error))
            return
        for row in found:
            why = await by_itself(self._clouds[row.cloud], row, self._clock)
            await self._done((row.cloud, row.project, row.user), row.reference, why)

    async def _done(self, key: _Key, reference: str, why: str) -> None:
        """Write down what became of a trust; `why` it is still there, empty where it is not."""
        if not why:
            log.info("trust deleted", cloud=key[0], user=key[2], trust=reference)
            await self._kept.deleted(*key, reference)
            return
        log.warning("trust not deleted", cloud=key[0], user=key[2], trust=reference, reason=why)
        await self._kept.not_deleted(*key, reference, why)
