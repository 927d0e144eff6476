"""A document that is replaced shows in its cluster's stamp: no watch goes on by the old one."""

from __future__ import annotations

import asyncio
import random

from tests.sim.fleet.fleet import Fleet
from tests.sim.fleet.shapes import shape

from yaffle.policy import parse_document
from yaffle.store import change_tokens
from yaffle.testing import run_virtual


def test_a_replaced_document_shows_in_the_stamp_of_its_cluster_alone() -> None:
    made = shape(27)
    changed, other = made.clusters[:2]
    properties = {k: dict(v) for k, v in changed.document["properties"].items()}
    properties["recovery"]["node_delete_timeout"] = 12
    document = parse_document({**changed.document, "properties": properties})

    async def story() -> None:
        async with asyncio.TaskGroup() as group:
            fleet = Fleet(made, random.Random(0), group)
            fleet.base.restore(made.stored)
            fleet.base.clock.stepped_s = made.built_s
            await fleet.base.clock.sleep(1.0)
            store = fleet.base.store()
            before = await store.read(change_tokens.all_clusters)
            await fleet.commands.update_policy(f"p-{changed.name}", document, source="", by="op")
            after = await store.read(change_tokens.all_clusters)
            differ = {ident for ident in before if before[ident] != after[ident]}
            assert differ == {made.idents[changed.name]}, made.idents[other.name]

    run_virtual(story, seed=0)
