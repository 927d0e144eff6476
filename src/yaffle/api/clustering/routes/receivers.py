"""Receivers, and the webhooks that start their actions for whoever has the URL."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select
from starlette.responses import Response

from yaffle.api.clustering import lists, response_schemas
from yaffle.api.clustering.errors import PageFault
from yaffle.api.clustering.lists import Filter, Noun, Shown
from yaffle.api.clustering.request import ApiRequest
from yaffle.api.clustering.request_schemas import IDENTITY, MAP, NAME, TEXT, maybe, shape
from yaffle.api.clustering.serializers import owner
from yaffle.api.clustering.table import Good, Param, Route
from yaffle.api.clustering.times import us_of, zulu
from yaffle.api.clustering.validation import Body, changed, created
from yaffle.api.http.reply import Reply
from yaffle.core.receiver_actions import ACTIONS, inputs_of
from yaffle.engine.commands.receivers import channel_of
from yaffle.errors import BadRequest
from yaffle.store import receivers as rows
from yaffle.store.tables import receivers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, RowMapping

    from yaffle.api.clustering.microversion import Microversion
    from yaffle.engine.runtime.context import ReceiverTerms

STRING: Final = response_schemas.STRING
RECEIVER: Final = response_schemas.thing(
    {
        "id": {**STRING, "description": "A secret: it opens the webhook."},
        "name": STRING,
        "type": STRING,
        **response_schemas.OWNER,
        **response_schemas.TIMES,
        "cluster_id": STRING,
        "actor": response_schemas.MAP,
        "action": STRING,
        "params": response_schemas.MAP,
        "channel": {
            **response_schemas.MAP,
            "description": "`alarm_url`: a POST to it starts the action.",
        },
        "expires_at": {**STRING, "description": "Of those that end: when. A call is 404 then."},
    },
    "expires_at",
)
ONE: Final = response_schemas.single("receiver", RECEIVER)
ACTION: Final = {
    **TEXT,
    "description": f"What it starts: {', '.join(f'`{name}`' for name in ACTIONS)}.",
}
PARAMS: Final = {**MAP, "description": "Inputs of the action, final for whoever calls the URL."}
EXPIRES: Final = {
    **TEXT,
    "format": "date-time",
    "description": "When it ends (an addition of ours); null or none: never.",
}
CREATE: Final = shape(
    ("name", "type"),
    name=NAME,
    type={"type": "string", "maxLength": 255, "description": "`webhook`."},
    cluster_id=maybe(IDENTITY),
    action=ACTION,
    actor={**MAP, "description": "Kept and shown; it acts for its creator in any case."},
    params=PARAMS,
    expires_at=EXPIRES,
)
UPDATE: Final = shape(name=maybe(NAME), action=ACTION, params=PARAMS, expires_at=EXPIRES)
EXAMPLE: Final = {
    "name": "more",
    "type": "webhook",
    "cluster_id": "web",
    "action": "CLUSTER_SCALE_OUT",
    "params": {"count": 1},
}
V_FORM: Final = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)


class NoVersion(PageFault):
    """The URL of a webhook says which shape the body has, and this one does not."""


def shown(row: RowMapping | Mapping[str, Any], terms: ReceiverTerms) -> Shown:
    """Return a receiver; where the key to its id is not, as it is stored and without a URL."""
    ident = rows.shown_id(terms.keys, row["id"], row["hidden"])
    end_us = rows.end_of(row["created_us"], row["expires_us"], terms.age_us)
    base = rows.base_of(row["channel"])
    return {
        "id": ident or row["id"],
        "name": row["name"],
        "type": row["type"],
        **owner(row),
        "created_at": zulu(row["created_us"]),
        "updated_at": zulu(row["updated_us"]),
        "cluster_id": row["cluster_id"],
        "actor": row["actor"],
        "action": row["action"],
        "params": row["params"],
        "channel": {} if ident is None else channel_of(base, ident, row["params"]),
        **({} if end_us is None else {"expires_at": zulu(end_us)}),
    }


def _noun(call: ApiRequest) -> Noun:
    """Return receivers as this server can show them: with its key to their ids."""
    terms = call.parts.receivers

    def by_id(conn: Connection, ids: Sequence[str], _: Microversion) -> Mapping[str, Shown]:
        found = conn.execute(select(receivers).where(receivers.c.id.in_(ids))).mappings()
        return {row["id"]: shown(row, terms) for row in found}

    def place_of(conn: Connection, ident: str) -> str:
        return rows.place_of(conn, terms.keys, ident, project=call.who.scope)

    return replace(NOUN, fetch=by_id, place_of=place_of)


def _end_us(call: ApiRequest) -> int | None:
    text = call.text("expires_at")
    if text is None:
        return None
    try:
        return us_of(text)
    except ValueError:
        raise BadRequest(
            f"expires_at: {text[:100]!r} is no time", hint="write 2027-01-31T12:00:00Z"
        ) from None


NOUN: Final = Noun(
    word="receiver",
    plural="receivers",
    table=receivers,
    fetch=lambda _conn, _ids, _version: {},
    filters={
        "name": Filter(column=receivers.c.name),
        "type": Filter(column=receivers.c.type),
        "cluster_id": Filter(column=receivers.c.cluster_id),
        "action": Filter(column=receivers.c.action),
        "user": Filter(column=receivers.c.user),
    },
    sorts={
        "name": receivers.c.name,
        "type": receivers.c.type,
        "action": receivers.c.action,
        "cluster_id": receivers.c.cluster_id,
        "created_at": receivers.c.created_us,
        "user": receivers.c.user,
    },
    order=(receivers.c.created_us, receivers.c.id),
)


async def list_receivers(call: ApiRequest) -> Response:
    """List receivers; their URLs are secrets, so this asks for the right to change things."""
    return await lists.listed(call, _noun(call))


async def create_receiver(call: ApiRequest) -> Response:
    """Create a webhook. Whoever has its URL may start the action, and needs nothing else."""
    ident = await call.parts.commands.receiver_create(
        call.who,
        name=str(call.text("name")),
        kind=str(call.text("type")),
        cluster=call.text("cluster_id"),
        action=call.text("action"),
        actor=call.mapping("actor"),
        params=call.mapping("params"),
        expires_us=_end_us(call),
        base_url=call.parts.public_url or call.root,
    )
    return Reply({"receiver": await lists.one(call, _noun(call), ident)}, 201)


async def show_receiver(call: ApiRequest) -> Response:
    """Show one receiver with its URL."""
    return Reply({"receiver": await lists.one(call, _noun(call), call.path["receiver"])})


async def update_receiver(call: ApiRequest) -> Response:
    """Change a receiver; its URL goes on working."""
    ident = str((await lists.one(call, _noun(call), call.path["receiver"]))["id"])
    await call.parts.commands.receiver_update(
        call.who,
        ident,
        name=call.text("name"),
        action=call.text("action"),
        params=call.mapping("params"),
        end=(_end_us(call),) if "expires_at" in call.body else None,
    )
    return Reply({"receiver": await lists.one(call, _noun(call), ident)})


async def delete_receiver(call: ApiRequest) -> Response:
    """Delete a receiver; its URL opens nothing any more."""
    await call.parts.commands.receiver_delete(call.who, call.path["receiver"])
    return Response(status_code=204)


async def notify_receiver(call: ApiRequest) -> Response:
    """Refuse, with the reason: only receivers of type `message` are told of messages."""
    await lists.one(call, _noun(call), call.path["receiver"])
    raise BadRequest("Notifying non-message receiver is not allowed.")


async def trigger(call: ApiRequest) -> Response:
    """Start a receiver's action; the URL is the credential, and the body may hold a `count`.

    With `V=1` inputs are below `params`, with a higher one they are the body itself. `count`, of scaling
    out and in, is all that a caller may say, and only where the receiver does not say it; other words of
    the action are refused. Words that the action does not know are left alone, so that alarm systems may
    post their own report.
    """
    version = call.one("V") or ""
    if not V_FORM.fullmatch(version):
        raise NoVersion("V query parameter is required in webhook trigger URL")
    found = await call.parts.commands.receiver_trigger(
        call.path["receiver"],
        inputs_of(int(version), call.body),
        source=call.caller,
        tenancy=call.parts.tenancy,
        gone=None if call.parts.owners is None else call.parts.owners.gone,
    )
    return call.accepted(found, {"action": found})


ROUTES: Final = (
    Route(
        method="GET",
        path="/receivers",
        handler=list_receivers,
        tag="receivers",
        params=NOUN.params,
        good=Good(schema=response_schemas.listed("receivers", RECEIVER)),
    ),
    Route(
        method="POST",
        path="/receivers",
        handler=create_receiver,
        tag="receivers",
        body=created("receiver", CREATE, EXAMPLE),
        good=Good(status=201, text="It exists.", schema=ONE),
    ),
    Route(
        method="GET",
        path="/receivers/{receiver}",
        handler=show_receiver,
        tag="receivers",
        good=Good(schema=ONE),
    ),
    Route(
        method="PATCH",
        path="/receivers/{receiver}",
        handler=update_receiver,
        tag="receivers",
        body=changed("receiver", UPDATE, {"name": "one-more"}),
        good=Good(schema=ONE),
    ),
    Route(
        method="DELETE",
        path="/receivers/{receiver}",
        handler=delete_receiver,
        tag="receivers",
        good=Good(status=204, text="It is gone."),
    ),
    Route(
        method="POST",
        path="/receivers/{receiver}/notify",
        handler=notify_receiver,
        tag="receivers",
        good=Good(status=204, text="Never: there are no receivers of type message."),
    ),
    Route(
        method="POST",
        path="/webhooks/{receiver}/trigger",
        handler=trigger,
        tag="webhooks",
        any_params=True,
        params=(
            Param(
                name="V",
                text="Shape of the body: 1 wraps the inputs in `params`, from 2 on they are it.",
                schema={"type": "integer", "minimum": 1},
            ),
        ),
        body=Body(schema={"type": "object"}, optional=True, by_handler=True),
        good=Good(status=202, text="The action is queued.", schema=response_schemas.STARTED),
        errors={429: "Too often: `Retry-After` says when to ask again."},
    ),
)
