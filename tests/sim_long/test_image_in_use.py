"""An hour with an image that another server runs from."""

from __future__ import annotations

from tests.sim.stage import Stage
from tests.sim.test_images_kept import RECREATE, TAKE, gone, heal, names
from tests.sim.test_rules import play


def test_one_that_is_in_use_outlives_its_node_for_as_long() -> None:
    async def story(s: Stage) -> None:
        victim, other = s.node_ids()[:2]
        await heal(s, victim)
        (image,) = names(s, victim)
        user = s.world.present(other)
        assert user is not None
        user.spec = {**user.spec, "image": image}
        await s.commands.delete_node(victim, by="op")
        await gone(s, victim)
        await s.clock.sleep(300)
        assert names(s, victim) == [image]
        user.spec = {**user.spec, "image": ""}
        await s.clock.sleep(3700)
        assert not names(s, victim)

    play(story, actions=RECREATE, snapshot=TAKE)
