"""Whose word counts: application credentials, tokens that are revoked, users who may do less."""

from __future__ import annotations

import asyncio

from tests.openstack.nova.world import CALL_S, CLOCK, World

from yaffle.drivers.profiles.nova_server import NovaServer
from yaffle.integrations.openstack import ApplicationCredential, Cloud
from yaffle.model.operations import ProgressState, Target
from yaffle.ports import DriverContext


def _profile(world: World, credential: ApplicationCredential) -> NovaServer:
    context = DriverContext(clock=CLOCK, state_dir=world.state_dir, settings=world.settings)
    return NovaServer(context, cloud=Cloud(credential, CLOCK))


def test_an_application_credential_is_enough_until_it_is_revoked(world: World) -> None:
    mine, api = world.cloud.credentials, world.cloud.api
    # Named, for Keystone now and then does not find the roles that this one implies.
    credential_of = {"name": "yaffle", "description": "heals", "roles": [{"name": "member"}]}
    wanted = {"application_credential": credential_of}
    path = f"/users/{mine.user_id}/application_credentials"
    made = api.call("POST", "identity", path, wanted)["application_credential"]
    credential = ApplicationCredential(
        auth_url=mine.auth_url, id=made["id"], secret=made["secret"], region=mine.region
    )

    async def scene() -> None:
        target = await world.made()
        profile = _profile(world, credential)
        (seen,) = await profile.read([target], deadline_s=CALL_S)
        assert seen.up is True, seen
        done = await world.do("STOP", target, profile=profile)
        assert done.state is ProgressState.DONE, done.detail
        api.call("DELETE", "identity", f"{path}/{made['id']}")
        await _until_refused(world, credential, target)

    asyncio.run(scene())


async def _until_refused(world: World, credential: ApplicationCredential, target: Target) -> None:
    """A new engine cannot log in any more: that is unknown, and no failure of the node."""
    (seen,) = await _profile(world, credential).read([target], deadline_s=CALL_S)
    assert seen.up is None, seen
    assert seen.exists


def test_a_token_that_is_revoked_is_replaced(world: World) -> None:
    mine = world.cloud.credentials

    async def scene() -> None:
        target = await world.made()
        profile = world.profile()
        assert (await profile.read([target], deadline_s=CALL_S))[0].up is True
        # The same password, set anew: Keystone revokes every token that was got with it.
        same = {"user": {"password": mine.password}}
        world.cloud.lab.api.call("PATCH", "identity", f"/users/{mine.user_id}", same)
        done = await world.do("REBOOT", target, profile=profile, type="HARD")
        assert done.state is ProgressState.DONE, done.detail
        assert world.acts(target) == ["reboot", "create"]

    asyncio.run(scene())


def test_a_user_without_rights_learns_nothing_and_does_nothing(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        mine = world.cloud.credentials
        world.cloud.lab.api.call(
            "PATCH", "identity", f"/users/{mine.user_id}", {"user": {"enabled": False}}
        )
        try:
            fresh = World(cloud=world.cloud, state_dir=world.state_dir)
            assert (await fresh.read(target)).up is None
        finally:
            world.cloud.lab.api.call(
                "PATCH", "identity", f"/users/{mine.user_id}", {"user": {"enabled": True}}
            )

    asyncio.run(scene())
