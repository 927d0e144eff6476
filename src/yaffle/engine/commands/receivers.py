"""Commands on receivers: URLs that start one action of one cluster without other credentials.

Whoever holds the URL acts with the rights of a member of the cluster's project and no others, so
the URL is a password: it appears in full in no log, no event and no table, each receiver has a bucket
of its own, and whoever guesses empties one of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlencode

import structlog

from yaffle.core.receiver_actions import ACTIONS, Route, called, faults
from yaffle.engine.commands.context import named
from yaffle.engine.commands.webhook_rate_limit import WebhookRateLimit
from yaffle.errors import (
    BadRequest,
    Forbidden,
    InvalidSpec,
    NotFound,
    StoreUnavailable,
    TooManyRequests,
)
from yaffle.model.authz import RIGHTS, Principal, Right, Role, need
from yaffle.store import catalog, receivers
from yaffle.store.receivers import masked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sqlalchemy import Connection

    from yaffle.engine.commands.context import CommandContext
    from yaffle.engine.commands.tenancy import Tenancy
    from yaffle.model.ids import ActionId
    from yaffle.store.rows import ClusterRow, ReceiverRow

log = structlog.get_logger()

WEBHOOK: Final = "webhook"
MESSAGE: Final = "message"


class Verbs(Protocol):
    """The verbs that a receiver may start."""

    async def cluster_act(
        self, who: Principal, ident: str, verb: str, data: Mapping[str, object]
    ) -> ActionId:
        """Do what `/clusters/ID/actions` does."""
        ...

    async def cluster_op(
        self,
        who: Principal,
        ident: str,
        operation: str,
        filters: Mapping[str, object],
        params: Mapping[str, object],
    ) -> ActionId:
        """Do one operation on the members."""
        ...

    async def cluster_update(
        self,
        who: Principal,
        ident: str,
        *,
        name: str | None,
        profile: str | None,
        metadata: Mapping[str, object] | None,
        timeout: int | None,
        profile_only: bool | None,
        config: Mapping[str, object] | None,
    ) -> ActionId:
        """Change the cluster."""
        ...

    async def cluster_delete(self, who: Principal, ident: str, *, force: bool = False) -> ActionId:
        """Delete the cluster."""
        ...


class Receivers:
    """Creates, changes, deletes and triggers receivers."""

    def __init__(self, context: CommandContext, verbs: Verbs) -> None:
        self._context = context
        self._verbs = verbs
        self._terms = context.ctx.receivers
        self._guesses = WebhookRateLimit(self._terms.rate)

    async def receiver_create(  # noqa: PLR0913 - a receiver has that many parts
        self,
        who: Principal,
        *,
        name: str,
        kind: str,
        cluster: str | None,
        action: str | None,
        base_url: str,
        actor: Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        expires_us: int | None = None,
    ) -> str:
        """Create a webhook and return its id; `base_url` begins its URL (`http://HOST:PORT`)."""
        need(who, Right.WRITE)
        self._refuse_past(expires_us)
        _refuse_kind(kind)
        if not cluster:
            raise BadRequest("Cluster identity is required for creating webhook receiver.")
        if not action:
            raise BadRequest("Action name is required for creating webhook receiver.")
        given = dict(params or {})
        _refuse_inputs(action, given)
        ident = self._context.ctx.new_id()

        def work(conn: Connection) -> None:
            found = _own_cluster(conn, who, cluster)
            receivers.add(
                conn,
                self._terms.keys,
                {
                    "id": ident,
                    "name": named(name),
                    "type": kind,
                    "cluster_id": found.id,
                    "action": action,
                    "actor": dict(actor or {}),
                    "params": given,
                    "channel": {"alarm_url": base_url},
                    "expires_us": expires_us,
                    # The project in which it acts; for an administrator not always their own.
                    "project": found.project,
                    "user": who.user,
                    "domain": who.domain,
                    "created_us": self._context.now(),
                },
            )
            self._context.event(
                conn,
                "RECEIVER",
                masked(ident),
                name,
                "RECEIVER_CREATE",
                replace(who, project=found.project),
            )

        await self._context.ctx.store.write(work)
        return ident

    async def receiver_update(
        self,
        who: Principal,
        ident: str,
        *,
        name: str | None = None,
        action: str | None = None,
        params: Mapping[str, object] | None = None,
        end: tuple[int | None] | None = None,
    ) -> None:
        """Change a receiver; the URL shows its new parameters, and goes on working as it was.

        `end`: when it ends from now on, in a tuple of one; `(None,)` takes its end away.
        """
        need(who, Right.WRITE)
        self._refuse_past(end[0] if end else None)

        def work(conn: Connection) -> None:
            row = receivers.find(conn, self._terms.keys, ident, project=who.scope)
            new: dict[str, object] = {}
            if name is not None and name != row.name:
                new["name"] = named(name)
            if action is not None and action != row.action:
                new["action"] = action
            if params is not None and dict(params) != dict(row.params):
                new["params"] = dict(params)
            if end is not None and end[0] != row.expires_us:
                new["expires_us"] = end[0]
            if not new:
                raise BadRequest("No property needs an update.")
            _refuse_inputs(
                row.action if action is None else action, row.params if params is None else params
            )
            receivers.set_values(conn, row.id, self._context.now(), **new)
            self._context.event(
                conn,
                "RECEIVER",
                masked(row.id),
                row.name,
                "RECEIVER_UPDATE",
                replace(who, project=row.project),
            )

        await self._context.ctx.store.write(work)

    async def receiver_delete(self, who: Principal, ident: str) -> None:
        """Delete a receiver: from now on its URL opens nothing."""
        need(who, Right.WRITE)

        def work(conn: Connection) -> None:
            row = receivers.find(conn, self._terms.keys, ident, project=who.scope)
            receivers.remove(conn, row.id)
            self._context.event(
                conn,
                "RECEIVER",
                masked(row.id),
                row.name,
                "RECEIVER_DELETE",
                replace(who, project=row.project),
            )

        await self._context.ctx.store.write(work)

    def _refuse_past(self, end_us: int | None) -> None:
        if end_us is not None and end_us <= self._context.now():
            raise BadRequest("expires_at: it is over already; give a time to come")

    async def receiver_trigger(
        self,
        ident: str,
        sent: Mapping[str, object],
        *,
        source: str = "",
        tenancy: Tenancy | None = None,
        gone: Callable[[Principal], Awaitable[str]] | None = None,
    ) -> ActionId:
        """Start the receiver's action and return the action's id; of `sent` counts what callers may say.

        Raises NotFound for an id that is none or has ended, TooManyRequests, and what the action's verb
        raises. An attempt costs a token whatever becomes of it; `source` is from where it comes.
        """
        row = await self._spent(ident, source)
        if tenancy is not None:
            await tenancy.admit(acting(row))
        if gone is not None and (why := await gone(acting(row))):
            log.warning("webhook without an owner", receiver=masked(row.id), name=row.name, why=why)
            raise Forbidden(
                "Whoever made this receiver cannot be acted for any more.",
                hint="somebody who may change its cluster deletes it, and makes another one",
            )
        given, problems = called(row.action, row.params, sent)
        if problems:
            raise InvalidSpec(problems)
        found = await self._start(row, given)
        log.info(
            "webhook triggered",
            receiver=masked(row.id),
            name=row.name,
            cluster=row.cluster_id,
            action=found,
        )
        try:
            await self._context.ctx.store.write(lambda conn: self._triggered(conn, row, found))
        except StoreUnavailable as error:
            # The action is queued: a refusal now would have the caller ask for it twice.
            log.warning("webhook event lost", receiver=masked(row.id), error=str(error))
        return found

    def _triggered(self, conn: Connection, row: ReceiverRow, action: ActionId) -> None:
        # The action names the receiver's creator; at night it matters that nobody asked by hand.
        reason = f"its URL was called: {row.action} {action}"
        who = acting(row)
        self._context.event(
            conn, "RECEIVER", masked(row.id), row.name, "RECEIVER_TRIGGER", who, reason
        )

    async def _spent(self, ident: str, source: str) -> ReceiverRow:
        """Return the receiver after taking a token for it."""

        def row_of(conn: Connection) -> ReceiverRow | None:
            now_us = self._context.now()
            return receivers.by_id(conn, ident, now_us=now_us, age_us=self._terms.age_us)

        def work(conn: Connection) -> tuple[ReceiverRow | None, float | None]:
            row = row_of(conn)
            if row is None:
                return None, None
            return row, receivers.spend(conn, row.id, self._terms.rate, self._context.now())

        async def look() -> bool:
            return await self._context.ctx.store.read(lambda conn: row_of(conn) is not None)

        row, wait_s = None, None
        if await self._guesses.is_one(ident, look):
            row, wait_s = await self._context.ctx.store.write(work)
        if row is None:
            self._guesses.missed(ident, source, self._context.now())
            raise NotFound("The receiver could not be found.")
        self._guesses.knows(ident)
        if wait_s is not None:
            raise TooManyRequests(
                f"The receiver '{row.name}' is triggered too often.", retry_after_s=wait_s
            )
        return row

    async def _start(self, row: ReceiverRow, given: Mapping[str, object]) -> ActionId:
        who, cluster = acting(row), row.cluster_id
        startable = ACTIONS[row.action]
        match startable.route:
            case Route.ACT:
                return await self._verbs.cluster_act(who, cluster, startable.verb, given)
            case Route.DELETE:
                force = given.get("force") is True
                return await self._verbs.cluster_delete(who, cluster, force=force)
            case Route.UPDATE:
                return await self._verbs.cluster_update(
                    who,
                    cluster,
                    name=_text(given, "name"),
                    profile=_text(given, "profile_id"),
                    metadata=_table(given, "metadata"),
                    timeout=_number(given, "timeout"),
                    profile_only=_flag(given, "profile_only"),
                    config=_table(given, "config"),
                )
            case Route.OPERATE:
                operation = _text(given, "operation")
                if operation is None:
                    raise BadRequest("No operation specified.")
                return await self._verbs.cluster_op(
                    who,
                    cluster,
                    operation,
                    _table(given, "filters") or {},
                    _table(given, "params") or {},
                )


def acting(row: ReceiverRow) -> Principal:
    """Return who acts when a receiver is triggered: a member of its project, never more than that."""
    return Principal(
        user=row.user, project=row.project, domain=row.domain, rights=RIGHTS[Role.MEMBER]
    )


def channel_of(base_url: str, ident: str, params: Mapping[str, object]) -> dict[str, object]:
    """Return how a webhook is reached; its parameters are shown in the URL, and read by nobody."""
    words = urlencode([("V", 2), *sorted(params.items())])
    return {"alarm_url": f"{base_url}/v1/webhooks/{ident}/trigger?{words}"}


def _refuse_kind(kind: str) -> None:
    if kind == MESSAGE:
        raise BadRequest(
            "Receivers of type 'message' are not supported: they need a Zaqar queue.",
            hint="create one of type 'webhook' and let the sender call its URL",
        )
    if kind != WEBHOOK:
        raise BadRequest(f"Unsupported receiver type '{kind}'.", hint="the only type is 'webhook'")


def _refuse_inputs(action: str, params: Mapping[str, object]) -> None:
    """Refuse what a receiver could not start, or only in vain."""
    if action not in ACTIONS:
        raise BadRequest(
            f"Illegal action '{action}' specified.", hint=f"it is one of {', '.join(ACTIONS)}"
        )
    problems = tuple(faults(action, params))
    if problems:
        raise InvalidSpec(problems)


def _own_cluster(conn: Connection, who: Principal, ident: str) -> ClusterRow:
    """Return the cluster to act on; another project's is not there, even for who knows its id.

    (Senlin answers 403 to that, which tells that there is such a cluster.)
    """
    try:
        return catalog.find_cluster(conn, ident, who.scope)
    except NotFound:
        raise BadRequest(f"The specified cluster '{ident}' could not be found.") from None


def _text(inputs: Mapping[str, object], key: str) -> str | None:
    value = inputs.get(key)
    return value if isinstance(value, str) else None


def _number(inputs: Mapping[str, object], key: str) -> int | None:
    value = inputs.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _flag(inputs: Mapping[str, object], key: str) -> bool | None:
    value = inputs.get(key)
    return value if isinstance(value, bool) else None


def _table(inputs: Mapping[str, object], key: str) -> dict[str, object] | None:
    value = inputs.get(key)
    return value if isinstance(value, dict) else None
