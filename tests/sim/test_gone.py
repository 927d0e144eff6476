"""A copy that its backend does not know any more is not rebooted: what cannot help is left out."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import policy, stage

from yaffle.engine.explain import Explainer
from yaffle.engine.queries.decisions import decision
from yaffle.model.authz import LOCAL
from yaffle.model.operations import Promise
from yaffle.store import incidents
from yaffle.store.tables import actions, steps
from yaffle.testing import run_virtual


class ForGood:
    """A profile that brings nothing back where it was."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.promises = inner.promises | {Promise.GONE_FOR_GOOD}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize(
    ("for_good", "rungs"),
    [
        pytest.param(True, ["RECREATE"], id="gone for good"),
        pytest.param(False, ["REBOOT", "RECREATE"], id="a reboot may bring it back"),
    ],
)
def test_what_cannot_help_is_left_out_and_said(for_good: bool, rungs: list[str]) -> None:
    async def scene() -> None:
        async with stage(7) as s:
            ctx = s.start().ctx
            if for_good:
                profiles: Any = ctx.drivers.profiles
                for name, inner in list(profiles.items()):
                    profiles[name] = ForGood(inner)
            await s.build(4, policy())
            victim = s.node_ids()[0]
            s.world.kill(victim)
            await s.clock.sleep(10)
            await s.until(s.all_well, 300, "it runs again")
            rows = await s.store.read(lambda c: incidents.decisions_of(c, victim, 9))
            (decided,) = [row for row in rows if row["kind"] == "recover"]
            assert decided["inputs"]["ladder"] == rungs
            assert decided["numbers"].get("left_out", []) == (["REBOOT"] if for_good else [])
            # It follows from what was stored with it.
            found: Any = decision(decided)["recheck"]
            assert found["agrees"] is True, found
            query = (
                select(steps.c.operation)
                .join(actions, actions.c.id == steps.c.action_id)
                .where(actions.c.action == "NODE_RECOVER", steps.c.stage.in_(("act", "create")))
            )
            acted = await s.store.read(lambda c: c.execute(query).all())
            assert acted[0].operation == rungs[0]
            lines = (await Explainer(s.ctx).why(LOCAL, victim)).lines()
            assert any("REBOOT of the policy was left out" in said for said in lines) is for_good

    run_virtual(scene, seed=7, cpu_s=60)
