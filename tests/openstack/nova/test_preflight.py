"""What is foreseen is what Nova then says: nothing is called impossible that it would have made."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.openstack.nova.world import CALL_S, World

from yaffle.model.operations import Operation, Outlook, ProgressState, Prospect, Target

NOBODYS = "01c3e056-5dd3-4277-8976-32b076612bcb"
MISSING: tuple[tuple[dict[str, object], str], ...] = (
    ({"image": "no-such"}, "there is no image 'no-such'"),
    ({"image": NOBODYS}, f"image {NOBODYS} is gone"),
    ({"flavor": "no-such"}, "there is no flavor 'no-such'"),
    ({"key_name": "no such"}, "key pair no such is gone"),
    ({"availability_zone": "no-such"}, "availability zone no-such is gone"),
    ({"scheduler_hints": {"group": NOBODYS}}, f"server group {NOBODYS} is gone"),
)


async def foreseen(
    world: World, target: Target, kind: str = "CREATE", **params: object
) -> Prospect:
    op = Operation(kind=kind, target=target, params=params)
    return await world.profile().foresee(op, deadline_s=CALL_S)


def instead(world: World, target: Target, **spec: object) -> Target:
    """Return the node whose server is there, with another profile."""
    return replace(target, spec=world.profile().validate({**target.spec, **spec}))


def test_what_is_missing_is_foreseen_and_refused(world: World) -> None:
    async def scene() -> None:
        there = await world.made()
        assert (await foreseen(world, there)).outlook is Outlook.POSSIBLE
        for spec, why in MISSING:
            said = await foreseen(world, instead(world, there, **spec))
            assert said.outlook is Outlook.IMPOSSIBLE, spec
            assert why in said.detail
            assert (await world.do("CREATE", world.target(**spec))).state is ProgressState.FAILED
        # Of a rebuild, too, Nova says so before it has touched anything.
        said = await foreseen(world, there, "REBUILD", image=NOBODYS)
        assert said.outlook is Outlook.IMPOSSIBLE
        assert (await world.do("REBUILD", there, image=NOBODYS)).state is ProgressState.FAILED
        assert (await world.read(there)).backend_status == "ACTIVE"

    asyncio.run(scene())


def test_what_is_there_is_possible_and_made(world: World) -> None:
    api = world.cloud.api
    api.call("POST", "compute", "/os-keypairs", {"keypair": {"name": "ops team"}})
    group = {"server_group": {"name": "apart", "policy": "soft-anti-affinity"}}
    made = api.call("POST", "compute", "/os-server-groups", group)
    spec: dict[str, object] = {
        "key_name": "ops team",
        "availability_zone": "nova",
        "scheduler_hints": {"group": str(made["server_group"]["id"])},
        "image": world.cloud.image(),
    }

    async def scene() -> None:
        there = await world.made(**spec)
        assert (await foreseen(world, there)).outlook is Outlook.POSSIBLE
        assert (await world.do("DELETE", there)).state is ProgressState.DONE
        assert (await foreseen(world, there)).outlook is Outlook.POSSIBLE, "nothing is left to lose"

    asyncio.run(scene())


def test_what_the_old_server_has_of_the_quota_is_room_for_the_new_one(world: World) -> None:
    project = world.cloud.credentials.project_id

    def allow(instances: int) -> None:
        quota = {"quota_set": {"instances": instances, "force": True}}
        world.cloud.lab.api.call("PUT", "compute", f"/os-quota-sets/{project}", quota)

    async def scene() -> None:
        there = await world.made()
        allow(1)
        assert (await foreseen(world, there)).outlook is Outlook.POSSIBLE
        assert "quota" in (await world.do("CREATE", world.target())).detail.lower()
        allow(0)
        said = await foreseen(world, there)
        assert said.outlook is Outlook.IMPOSSIBLE
        assert "Quota exceeded for instances: 1 wanted, 0 of 0 in use" in said.detail

    asyncio.run(scene())
