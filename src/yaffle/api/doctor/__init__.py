"""Facts about everything that healing depends on, each with a verdict and what to do about it.

`examine` asks everything, the database included; `vitals` is for probes that come every second and
looks at this process alone, without waiting for anything.
"""

from __future__ import annotations

import asyncio
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from yaffle.api.doctor import disk
from yaffle.api.doctor.facts import Facts, gather, names_of
from yaffle.api.doctor.report import Check, Report, Status, judged
from yaffle.config import is_loopback, split_address
from yaffle.errors import StoreUnavailable
from yaffle.model.incident import PauseKind

if TYPE_CHECKING:
    from pathlib import Path

    from yaffle.config import Settings
    from yaffle.engine.engine import Engine
    from yaffle.engine.kit import Kit
    from yaffle.prober.client import ProberStats

__all__ = ["Check", "Doctor", "Report", "Status"]

NAMES_MAX: Final = 10
SLOW_S: Final = 1.0
PENDING_S: Final = 60.0
READY_S: Final = 10.0


class Doctor:
    """Examines one service."""

    def __init__(
        self,
        *,
        kit: Kit,
        engine: Engine,
        settings: Settings,
        prober: Callable[[], ProberStats],
    ) -> None:
        self._kit = kit
        self._engine = engine
        self._settings = settings
        self._prober = prober
        self._service_id = str(uuid.uuid4())
        self._wall_us = kit.clock.now_us()
        self._mono_s = kit.clock.monotonic_s()

    async def examine(self) -> Report:
        """Return every check; never raises, for what is broken is its answer."""
        state_dir = self._settings.state_dir
        # The folder of the database: a full disk is noticed there first.
        path = self._kit.store.path
        room = await asyncio.to_thread(disk.look, path.parent if path else state_dir)
        stored = await self._database()
        causes = [c for c in (room, *stored) if c.status is Status.FAIL]
        checks = [*stored, room, self._session(causes), self._probing(), self._clock()]
        checks.append(await asyncio.to_thread(_state_dir, state_dir))
        return Report(checks=[*checks, *self._access(), self._notifiers()])

    def vitals(self) -> tuple[dict[str, object], bool]:
        """Return the body of /health in the shape of seed 4, and whether this process is well."""
        words = {Status.OK: "pass", Status.WARN: "warn", Status.FAIL: "fail"}
        checks = [self._session(), self._probing(restarting=Status.WARN)]
        worst = Report(checks=checks).status
        time = datetime.fromtimestamp(self._kit.clock.now_us() // 1_000_000, UTC).isoformat()
        body: dict[str, object] = {
            "status": words[worst],
            "version": "1.0",
            "serviceId": self._service_id,
            "description": "yaffle",
            "notes": {"host": self._kit.host},
            "checks": {
                c.name: {
                    "status": words[c.status],
                    "time": time,
                    **({} if c.status is Status.OK else {"output": c.detail}),
                }
                for c in checks
            },
        }
        return body, worst is not Status.FAIL

    # --- this process ------------------------------------------------------------------------

    def _session(self, causes: Sequence[Check] = ()) -> Check:
        session = self._engine.session
        if session is None:
            why = "".join(f"; {c.name}: {c.detail}" for c in causes)
            return Check(
                name="engine",
                status=Status.FAIL,
                detail=f"it has no session: it observes at most, and does not act{why}",
                advice="It begins one when the database answers; see there, and in the log.",
            )
        left_s = session.left_s()
        return judged(
            "engine",
            left_s <= 0,
            f"epoch {session.epoch}, lease for another {left_s:.1f} s",
            "Its lease is over and it stops acting; it begins anew by itself. Look at the database.",
            worst=Status.FAIL,
        )

    def _probing(self, *, restarting: Status = Status.FAIL) -> Check:
        stats = self._prober()
        detail = (
            f"pid {stats.pid}, {stats.checks_per_s:.1f} checks/s, {stats.restarts} restarts"
            if stats.up
            else f"away, after {stats.restarts} restarts"
        )
        return judged(
            "prober",
            not stats.up,
            detail,
            "It is restarted by itself; until then URLs are not asked. See the log if it stays away.",
            worst=restarting,
        )

    def _clock(self) -> Check:
        clock = self._kit.clock
        moved_s = (clock.now_us() - self._wall_us) / 1e6 - (clock.monotonic_s() - self._mono_s)
        return judged(
            "clock",
            abs(moved_s) > self._settings.engine.clock_jump,
            f"moved by {moved_s:+.3f} s against the monotonic clock since the start",
            "Something sets the clock in steps; run an NTP daemon that slews it.",
        )

    def _access(self) -> Iterator[Check]:
        server = self._settings.server
        near = "loopback" if is_loopback(split_address(server.listen)[0]) else "reachable"
        files = (("tokens", server.token_file), ("users", server.users_file))
        known = " and ".join(f"{what} from {path}" for what, path in files if path)
        yield Check(
            name="access",
            status=Status.OK,
            detail=f"{server.listen} ({near}), {known or 'anybody, without credentials'}",
        )
        yield judged(
            "local processes",
            self._settings.local_process.enabled and near != "loopback",
            "on: whoever may create their profiles may run commands as this user"
            if self._settings.local_process.enabled
            else "off",
            "Every admin can run commands here; listen on loopback, or switch them off.",
        )

    def _notifiers(self) -> Check:
        names = ", ".join(self._kit.notify)
        return judged(
            "notifiers", not names, names or "none", "Nobody is told of incidents: set notifiers."
        )

    # --- the database ------------------------------------------------------------------------

    async def _database(self) -> Sequence[Check]:
        clock = self._kit.clock
        began_s = clock.monotonic_s()
        unseen = self._unseen()
        try:
            # Reads go on from a file that was taken away; only the writer notices.
            await self._kit.store.write(lambda _: None)
            facts, names = await self._kit.store.read(
                lambda conn: (gather(conn, clock.now_us()), names_of(conn, unseen[:NAMES_MAX]))
            )
        except StoreUnavailable as error:
            return [
                Check(
                    name="database",
                    status=Status.FAIL,
                    detail=str(error),
                    advice="Look at the disk and the rights of the file; nothing is healed meanwhile.",
                )
            ]
        took_s = clock.monotonic_s() - began_s
        return [
            judged(
                "database",
                took_s > SLOW_S,
                f"{self._kit.store.path or 'in memory'}: writes and reads within {took_s * 1000:.1f} ms",
                "It is slow: look at the disk and at what else uses it.",
            ),
            *_of_facts(facts),
            judged(
                "never seen",
                bool(unseen),
                f"{len(unseen)} watched nodes without a single observation{_listed(names)}",
                "Ask `yaffle why NODE` for one of them: address, port, detection modes.",
            ),
        ]

    def _unseen(self) -> Sequence[str]:
        return [
            node
            for watch in self._engine.watches.values()
            if watch.never_seen
            for node in watch.memories.keys() - watch.seen
        ]


def _of_facts(facts: Facts) -> Iterator[Check]:
    yield judged(
        "watching",
        bool(facts.unwatched),
        f"{facts.clusters} clusters, {facts.nodes} nodes"
        + (f"; nobody watches{_listed(facts.unwatched)}" if facts.unwatched else ", all watched"),
        "A new cluster is taken within a second or two; if it stays so, no engine is acting.",
    )
    yield judged(
        "policies",
        bool(facts.unprotected),
        f"{len(facts.unprotected)} clusters without a health policy in force"
        f"{_listed(facts.unprotected)}",
        "Nothing is detected there: `yaffle cluster attach`.",
    )
    yield judged(
        "actions",
        facts.ready_age_s > READY_S,
        f"the oldest waits {facts.ready_age_s:.1f} s to be taken up",
        "All workers are busy (engine.workers), or no engine is acting.",
    )
    yield judged(
        "news",
        facts.pending_age_s > PENDING_S or facts.parked > 0,
        f"the oldest waits {facts.pending_age_s:.1f} s; {facts.parked} set aside",
        "See `yaffle outbox list`; mend the receiver, then `yaffle outbox redeliver`.",
    )
    yield judged(
        "remains",
        facts.debris > 0,
        f"{facts.debris} old copies are still being deleted",
        "It is tried for ever; see the log for what is in the way.",
    )
    spent = [f"{name} (incident {ident[:8]})" if ident else name for name, ident in facts.exhausted]
    yield judged(
        "needs a human",
        bool(spent),
        f"{len(spent)} nodes whose recoveries are used up{_listed(spent)}",
        "They are left alone: find the cause, then `yaffle incident ack ID`, or"
        " `yaffle node recover NODE`.",
    )
    yield from _of_pauses(facts)


def _of_pauses(facts: Facts) -> Iterator[Check]:
    stops = [p for p in facts.pauses if p.kind is PauseKind.STOP]
    detail = "; ".join(f"{p.owner}: {p.reason}" for p in stops[:NAMES_MAX])
    yield judged(
        "healing",
        bool(stops),
        f"stopped by {detail}" if stops else "allowed",
        "Nothing is healed: `yaffle stop --lift` when the reason is gone.",
    )
    planned = len(facts.pauses) - len(stops)
    yield Check(name="maintenance", status=Status.OK, detail=f"{planned} in force")


def _listed(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = ", …" if len(names) > NAMES_MAX else ""
    return f": {', '.join(names[:NAMES_MAX])}{more}"


def _state_dir(path: Path) -> Check:
    name = "state directory"
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return Check(
            name=name,
            status=Status.FAIL,
            detail=f"{path}: {error.strerror}",
            advice="It holds the records of local nodes: bring it back and restart.",
        )
    return judged(
        name,
        bool(mode & (stat.S_IRWXG | stat.S_IRWXO)),
        f"{path}, mode {stat.S_IMODE(mode):04o}",
        f"It holds commands and secrets: chmod 700 {path}",
    )
