"""An update that takes longer than it may: what comes of it later, and what the copy is made of then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.sim.stage import Stage, stage
from tests.sim.test_node_actions import alone, ended, node, profile_name

from yaffle.engine.explain import Explainer
from yaffle.engine.steps.node_action_plan import IN_DOUBT
from yaffle.errors import BadRequest
from yaffle.model.authz import LOCAL
from yaffle.store import actions
from yaffle.testing import run_virtual


def play(story: Callable[[Stage, Any], Awaitable[None]]) -> None:
    """Tell the story of a node whose update is out of time, and done by its backend afterwards."""

    async def main() -> None:
        async with stage(5) as s:
            s.start()
            ident = await alone(s)
            bound_s = s.ctx.settings.update_timeout
            slow = {"image": "v1", "create_s": 3.0, "label": "slow", "reboot_s": bound_s + 60}
            await s.commands.create_profile("slow", s.profile.type, slow, by="sim")
            done = await update(s, ident, "slow")
            assert done.status == actions.FAILED
            assert "out of time" in done.status_reason
            await story(s, ident)

    run_virtual(main, seed=5, cpu_s=60)


async def update(s: Stage, ident: Any, profile: str) -> Any:
    action = await s.commands.node_update(LOCAL, ident, profile=profile)
    return await ended(s, action, within_s=2 * s.ctx.settings.update_timeout)


async def later(s: Stage, ident: Any) -> None:
    """Let the backend be done with it."""
    await s.clock.sleep(120)
    assert labels(s, ident) == ["slow"]


def labels(s: Stage, ident: Any) -> list[object]:
    return [copy.spec["label"] for copy in s.world.alive(ident)]


async def told(s: Stage, ident: Any) -> str:
    return " ".join((await Explainer(s.ctx).why(LOCAL, ident)).lines())


def test_that_the_copy_may_have_either_is_said_and_undone_by_going_back() -> None:
    async def story(s: Stage, ident: Any) -> None:
        assert "may have the properties of slow" in (await node(s, ident)).status_reason
        await later(s, ident)
        assert await profile_name(s, ident) == "old", "the row says what was certain last"
        assert "An update to profile slow was begun and did not succeed" in await told(s, ident)
        before: list[object] = []
        submit = s.profile.submit

        async def seen(op: Any, **more: Any) -> Any:
            before.append(op.params["old"]["label"])
            return await submit(op, **more)

        s.profile.submit = seen  # type: ignore[method-assign]
        assert (await update(s, ident, "old")).status == actions.SUCCEEDED
        assert set(before) == {"slow"}, "the driver looks at whatever may differ"
        assert labels(s, ident) == [""]
        assert "did not succeed" not in await told(s, ident)
        with pytest.raises(BadRequest, match="No property needs an update"):
            await update(s, ident, "old")

    play(story)


def test_the_same_again_makes_it_certain() -> None:
    async def story(s: Stage, ident: Any) -> None:
        await later(s, ident)
        copy = s.world.present(ident)
        quick = {"image": "v1", "create_s": 3.0, "label": "slow"}
        await s.commands.create_profile("quick", s.profile.type, quick, by="sim")
        assert (await update(s, ident, "quick")).status == actions.SUCCEEDED
        assert s.world.present(ident) is copy, "nothing is given up for it"
        assert IN_DOUBT not in (await node(s, ident)).attributes
        assert await profile_name(s, ident) == "quick"

    play(story)


def test_a_copy_that_is_made_anew_is_that_of_its_row() -> None:
    async def story(s: Stage, ident: Any) -> None:
        await later(s, ident)
        s.world.kill(ident)
        done = await ended(s, await s.commands.node_recover(LOCAL, ident))
        assert done.status == actions.SUCCEEDED
        assert labels(s, ident) == [""]
        assert IN_DOUBT not in (await node(s, ident)).attributes
        assert await profile_name(s, ident) == "old"

    play(story)
