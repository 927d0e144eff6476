"""What is foreseen of a stack is what Heat then says; what Heat cannot ask is neither."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from lab.openstack.api import Refused
from tests.openstack.heat.world import CALL_S, SERVER, World, spec

from yaffle.model.operations import Operation, Outlook, ProgressState, Prospect, Target


async def foreseen(world: World, target: Target) -> Prospect:
    op = Operation(kind="CREATE", target=target)
    return await world.profile().foresee(op, deadline_s=CALL_S)


def of(image: str) -> Mapping[str, object]:
    """Return the properties of a stack with one server that is made of an image."""
    properties = SERVER["properties"]
    assert isinstance(properties, dict)
    return spec(one={**SERVER, "properties": {**properties, "image": image}})


def test_a_stack_is_not_given_up_for_one_whose_image_is_gone(world: World) -> None:
    api = world.cloud.api

    def upload() -> str:
        wanted = {"name": "mine", "disk_format": "raw", "container_format": "bare"}
        ident = str(api.call("POST", "image", "/images", wanted)["id"])
        api.call("PUT", "image", f"/images/{ident}/file", b"an image")
        return ident

    image = upload()

    async def scene() -> None:
        there = await world.made(of("lab-image"))
        new = replace(there, spec=world.profile().validate(of("mine")))
        assert (await foreseen(world, there)).outlook is Outlook.POSSIBLE
        assert (await foreseen(world, new)).outlook is Outlook.POSSIBLE
        api.call("DELETE", "image", f"/images/{image}")
        said = await foreseen(world, new)
        assert said.outlook is Outlook.IMPOSSIBLE
        assert "Error validating value 'mine': No images matching" in said.detail
        refused = await world.do("CREATE", world.target(of("mine")))
        assert refused.state is ProgressState.FAILED, refused.detail
        # An update's preview, which is asked where the old stack has the last room, says the same.
        path = f"/{there.attributes['stack_name']}/{there.physical_id}/preview"
        world.stacks(path, "PUT", {"template": there.spec["template"]})
        with pytest.raises(Refused, match="Error validating value 'mine'"):
            world.stacks(path, "PUT", {"template": new.spec["template"]})
        upload()
        assert (await foreseen(world, new)).outlook is Outlook.POSSIBLE
        # Nothing was made of what was only asked, and the old stack is as it was.
        assert [one["id"] for one in world.stacks()["stacks"]] == [there.physical_id]
        assert (await world.read(there)).up is True

    asyncio.run(scene())


def test_while_glance_or_nova_is_down_nobody_knows(broken_world: World) -> None:
    world = broken_world

    async def scene() -> None:
        there = await world.made(of("lab-image"))
        for service in ("glance", "nova-api", "heat-api", "heat-engine"):
            with world.cloud.lab.stopped(service):
                op = Operation(kind="CREATE", target=there)
                said = await world.profile().foresee(op, deadline_s=10.0)
                assert said.outlook is Outlook.UNKNOWN, (service, said)
        assert (await foreseen(world, there)).outlook is Outlook.POSSIBLE

    asyncio.run(scene())
