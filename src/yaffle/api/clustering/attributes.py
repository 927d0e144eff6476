"""Collects an attribute of each node of a cluster by JSONPath, as Senlin does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from jsonpath_ng import JSONPath
from jsonpath_ng.exceptions import JSONPathError
from jsonpath_ng.parser import parse
from sqlalchemy import select

from yaffle.api.clustering import serializers
from yaffle.api.clustering.errors import HTTPBadRequest
from yaffle.model.ids import NodeId
from yaffle.store.tables import nodes

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.api.clustering.lists import Shown
    from yaffle.api.clustering.request import ApiRequest

PATH_MAX: Final = 255
DESCENTS_MAX: Final = 1
"""Each `..` visits everything below everything that the last one found: four take seconds."""
ASKED_AT_ONCE: Final = 16
"""Backends that are asked at the same time."""
UNWANTED: Final = frozenset("&|`")
"""Operators of the library that Senlin's clients do not know, and that it is about to give up."""


def parsed(text: str) -> JSONPath:
    """Return the path; raise HTTPBadRequest for what is none."""
    if text.lower() == "none":
        # What a client in Python makes of an option that nobody gave; no node has such an attribute.
        raise HTTPBadRequest("Required path attribute is missing.")
    try:
        if len(text) > PATH_MAX or UNWANTED & set(text):
            raise HTTPBadRequest(f"'{text[:PATH_MAX]}' is no JSONPath that is understood here.")
        if text.count("..") > DESCENTS_MAX:
            raise HTTPBadRequest(f"'{text[:PATH_MAX]}' has '..' more than once.")
        return parse(text)
    # The library also raises what it did not mean to.
    except (JSONPathError, NotImplementedError, AssertionError, ValueError, RecursionError) as no:
        raise HTTPBadRequest(f"'{text[:PATH_MAX]}' is no JSONPath: {no}"[:500]) from None


async def of_nodes(call: ApiRequest, cluster_id: str, path: JSONPath) -> Sequence[Shown]:
    """Return id and value of every node that has such an attribute, in the order of their index."""

    def work(conn: Connection) -> Mapping[str, Shown]:
        ids = conn.execute(
            select(nodes.c.id)
            .where(nodes.c.cluster_id == cluster_id)
            .order_by(nodes.c.index, nodes.c.id)
        ).scalars()
        wanted = list(ids)
        found = serializers.nodes_by_id(conn, wanted, call.version)
        return {ident: found[ident] for ident in wanted}

    members = await call.read(work)
    if "details" in str(path) or "*" in str(path) or ".." in str(path):
        await _detail(call, list(members.values()))
    return await asyncio.to_thread(_values, path, members)


async def _detail(call: ApiRequest, members: Sequence[Shown]) -> None:
    turn = asyncio.Semaphore(ASKED_AT_ONCE)

    async def one(node: Shown) -> None:
        async with turn:
            node["details"] = await call.parts.queries.details(NodeId(str(node["id"])))

    async with asyncio.TaskGroup() as group:
        for node in members:
            group.create_task(one(node))


def _values(path: JSONPath, members: Mapping[str, Shown]) -> list[Shown]:
    found: list[Shown] = []
    for ident, node in members.items():
        matches = path.find(node)
        if matches:
            found.append({"id": ident, "value": matches[0].value})
    return found
