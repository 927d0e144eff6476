"""A cell that Nova cannot reach: its servers are left out of lists, and nothing is proved by that."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.openstack.nova.world import CALL_S, World, new_id

from yaffle.drivers.profiles.nova_server import NovaServer
from yaffle.model.operations import Hindrance, Operation, Progress, ProgressState, Target

WHOSE = "does not tell whose copy it is"


@pytest.mark.parametrize("admin", [False, True], ids=["a member", "an administrator"])
def test_no_copy_is_made_or_called_gone_while_a_cell_is_away(
    admin: bool, request: pytest.FixtureRequest
) -> None:
    world: World = request.getfixturevalue("broken_admin_world" if admin else "broken_world")
    mine = world.cloud.credentials.project_id

    async def once(profile: NovaServer, kind: str, target: Target) -> Progress:
        op = Operation(kind=kind, target=target, timeout_s=CALL_S)
        return await profile.submit(op, operation_id=new_id(), deadline_s=CALL_S)

    async def scene() -> None:
        made = await world.made()
        knowing = world.profile()
        # A node whose copy came late: nothing but its mark says whose it is.
        lost = replace(made, physical_id="", attributes={"project_id": mine})
        (seen,) = await knowing.read([lost], deadline_s=CALL_S)
        assert (seen.up, seen.physical_id) == (True, made.physical_id)
        with world.cloud.lab.without_cell():
            new = world.profile()
            for kind in ("CREATE", "DELETE"):
                done = await once(new, kind, lost)
                assert (done.state, done.hindrance) == (
                    ProgressState.RUNNING,
                    Hindrance.UNASKED,
                ), done
                assert WHOSE in done.detail
            (seen,) = await new.read([lost], deadline_s=CALL_S)
            assert (seen.exists, seen.up, seen.asked) == (True, None, False), seen
            assert WHOSE in seen.detail
            # Who has seen it before knows that it is this node's.
            done = await once(knowing, "CREATE", lost)
            assert done.state is ProgressState.FAILED
            assert f"an older copy of this node may still run: {made.physical_id}" in done.detail
            for target in (lost, made):
                (seen,) = await knowing.read([target], deadline_s=CALL_S)
                assert (seen.up, seen.physical_id) == (None, made.physical_id), seen
        await world.until(made, "ACTIVE")
        assert (await world.read(lost)).physical_id == made.physical_id
        assert world.cloud.lab.servers_of(mine) == [made.physical_id]
        assert world.acts(made) == ["create"]

    asyncio.run(scene())
