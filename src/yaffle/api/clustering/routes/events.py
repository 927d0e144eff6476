"""Events: what happened to clusters and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.api.clustering import lists, response_schemas, serializers
from yaffle.api.clustering.lists import Filter, Noun
from yaffle.api.clustering.request import ApiRequest
from yaffle.api.clustering.table import Good, Route
from yaffle.api.http.reply import Reply
from yaffle.store.tables import events

if TYPE_CHECKING:
    from starlette.responses import Response

LEVELS: Final = {**serializers.LEVELS, "WARN": serializers.LEVELS["WARNING"]}


def _level(word: str) -> object:
    return LEVELS[word]


NOUN: Final = Noun(
    word="event",
    plural="events",
    table=events,
    fetch=serializers.events_by_id,
    filters={
        "oid": Filter(column=events.c.oid),
        "oname": Filter(column=events.c.oname),
        "otype": Filter(column=events.c.otype, words=frozenset({"CLUSTER", "NODE"})),
        "cluster_id": Filter(column=events.c.cluster_id),
        "action": Filter(column=events.c.action),
        "level": Filter(column=events.c.level, words=frozenset(LEVELS), convert=_level),
    },
    sorts={
        "timestamp": events.c.at_us,
        "level": events.c.level,
        "otype": events.c.otype,
        "oname": events.c.oname,
        "action": events.c.action,
        "status": events.c.status,
        "oid": events.c.oid,
        "cluster_id": events.c.cluster_id,
    },
    order=(events.c.seq,),
    # Of profiles, policies and the rest Senlin's clients know no events.
    where=(events.c.otype.in_(("CLUSTER", "NODE")),),
    portion=1000,
)


async def list_events(call: ApiRequest) -> Response:
    """List what happened to clusters and nodes, in order."""
    return await lists.listed(call, NOUN)


async def show_event(call: ApiRequest) -> Response:
    """Show one event."""
    return Reply({"event": await lists.one(call, NOUN, call.path["event"])})


ROUTES: Final = (
    Route(
        method="GET",
        path="/events",
        handler=list_events,
        tag="events",
        params=NOUN.params,
        good=Good(schema=response_schemas.listed("events", response_schemas.EVENT)),
    ),
    Route(
        method="GET",
        path="/events/{event}",
        handler=show_event,
        tag="events",
        good=Good(schema=response_schemas.single("event", response_schemas.EVENT)),
    ),
)
