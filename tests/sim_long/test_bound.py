"""The printed worst case is one: no failure takes longer, whatever the backend and the fencer do.

A seed draws an accepted policy, a way to die and what goes wrong while the node is healed: calls that
hang, operations that take almost all the time they have, fencers without an answer. Each term of the
sum is held to its share too, since slack in one would hide what another takes too long.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import Stage, policy, stage

from yaffle.core.recovery.ladder import Stage as Step
from yaffle.core.recovery.ladder import build
from yaffle.policy import ParsedPolicy, parse_document
from yaffle.store.tables import actions, steps
from yaffle.testing import Fault, Rule, run_virtual

SEEDS = int(os.environ.get("YAFFLE_SIM_RUNS") or 0) or 12
SHARES = {
    Step.LOOK: "prepare",
    Step.EVIDENCE: "prepare",
    Step.FENCE: "fence",
    Step.DELETE: "fence",
    Step.CREATE: "recover",
    Step.ACT: "recover",
    Step.VERIFY: "recover",
}
CALLS = (
    "submit:REBOOT",
    "submit:DELETE",
    "submit:CREATE",
    "submit:*",
    "poll:*",
    "fence",
    "capture",
)
DEAF = (Fault.HANG, Fault.STUCK, Fault.LOSE, Fault.FAIL, Fault.RAISE)
URL = "NODE_STATUS_POLL_URL"


def drawn(rng: random.Random) -> dict[str, Any]:
    """Return a policy that is accepted, with small numbers of every kind."""
    interval = rng.choice([1, 2, 5, 10])
    fall = rng.randint(1, 3)
    url = {"poll_url": "http://{node_ip}/", "poll_url_timeout": round(interval * 0.45, 2)}
    url |= rng.choice([{"poll_url_retry_limit": 1}, {"poll_url_retry_limit": 2}])
    modes: list[dict[str, Any]] = [{"type": URL, "options": {**url, "poll_url_retry_interval": 0}}]
    if rng.random() < 0.6:
        modes.append({"type": "NODE_STATUS_POLLING"})
    names = rng.choice([["REBOOT"], ["RECREATE"], ["REBOOT", "RECREATE"], ["RECREATE", "RECREATE"]])
    return policy(
        interval=interval,
        fall=fall,
        rise=rng.randint(1, 3),
        node_update_timeout=interval * fall,
        detection_modes=modes,
        actions=[{"name": n, "timeout": rng.choice([2, 15, 40])} for n in names],
        fencing=rng.choice([[], ["COMPUTE"]]),
        node_delete_timeout=rng.choice([0, 5, 25]),
        node_force_recreate=rng.random() < 0.5,
        evidence={"timeout": rng.choice([1, 7])},
        retry={"attempts": 3, "backoff": 10, "max_backoff": 20, "stable_after": 60},
    )


async def installed(s: Stage, parsed: ParsedPolicy, spec: dict[str, float]) -> None:
    """Build a cluster of three, all past their grace."""
    kind = s.profile.type
    await s.commands.create_policy("p", parsed, source="", by="sim")
    await s.commands.create_profile("f", kind, spec, by="sim")
    await s.commands.create_cluster("web", "f", 3, by="sim", policy="p")
    await s.until(s.all_well, 120, "the cluster was built")
    await s.clock.sleep(60 + 10 * s.rng.random())


async def recovery(s: Stage) -> Any:
    """Return the first recovery; None as long as there is none."""
    query = select(actions.c.id, actions.c.end_us, actions.c.status).where(
        actions.c.action == "NODE_RECOVER"
    )
    return await s.store.read(lambda c: c.execute(query.order_by(actions.c.created_us)).first())


async def shares(s: Stage, action_id: str) -> tuple[int, dict[str, float]]:
    """Return when the first step began (µs), and the seconds that each term of the sum took."""
    query = select(steps).where(steps.c.action_id == action_id).order_by(steps.c.seq)
    rows = await s.store.read(lambda c: c.execute(query).all())
    took: dict[str, float] = defaultdict(float)
    for row in rows:
        took[SHARES[Step(row.stage)]] += (row.ended_us - row.intent_us) / 1e6
    return rows[0].intent_us, took


def trouble(rng: random.Random) -> tuple[list[Rule], list[Rule]]:
    """Return what goes wrong from the start, and what only once the failure has been seen."""
    acting = [
        Rule(fault=rng.choice(DEAF), call=rng.choice(CALLS)) for _ in range(rng.randint(0, 3))
    ]
    # The way to the node may be bad as well, but a failure that is not seen has no bound.
    fault, call = rng.choice([Fault.FAIL, Fault.HANG, Fault.STUCK]), rng.choice(["check", "read"])
    return acting, [Rule(fault=fault, call=call)] if rng.random() < 0.7 else []


async def strike(
    s: Stage, rng: random.Random, first: list[Rule], then: list[Rule]
) -> tuple[int, Any]:
    """Let one node fail; return when (µs), and the row of the recovery once that has ended."""
    s.plan.rules += first
    victim = rng.choice(s.node_ids())
    failed_us = s.clock.now_us()
    (s.world.kill if rng.random() < 0.5 else s.world.hang)(victim)
    while (found := await recovery(s)) is None:
        assert s.clock.now_us() - failed_us < 300e6, await s.picture()
        await s.clock.sleep(0.2)
    s.plan.rules += then
    while found.end_us is None:
        assert s.clock.now_us() - failed_us < 3000e6, await s.picture()
        await s.clock.sleep(0.5)
        found = await recovery(s)
    return failed_us, found


def run(
    seed: int,
    document: dict[str, Any],
    spec: dict[str, float],
    rules: tuple[list[Rule], list[Rule]] | None = None,
) -> tuple[dict[str, float], str]:
    """Return how long each term took, none longer than is printed, and the recovery's last status."""
    parsed = parse_document(document)
    rng = random.Random(seed)
    bound = parsed.arithmetic
    assert bound.detect_s is not None
    assert bound.total_s is not None
    decide_s = bound.prepare_s - len(build(parsed.policy.recovery)) * bound.look_s

    async def main() -> tuple[dict[str, float], str]:
        async with stage(seed) as s:
            s.start()
            await installed(s, parsed, spec)
            failed_us, found = await strike(s, rng, *(rules or trouble(rng)))
            began_us, took = await shares(s, found.id)
            took["detect"] = (began_us - failed_us) / 1e6
            took["total"] = (found.end_us - failed_us) / 1e6
            return took, found.status

    took, status = run_virtual(main, seed=seed, cpu_s=60)
    limits = {
        "detect": bound.detect_s + decide_s,
        "prepare": bound.prepare_s,
        "fence": bound.fence_s,
        "recover": bound.recover_s,
        "total": bound.total_s,
    }
    over = {k: (took[k], limits[k]) for k in limits if took[k] > limits[k]}
    assert not over, f"longer than printed: {over}; {bound.lines()}"
    return took, status


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_failure_takes_longer_than_the_printed_worst_case(seed: int) -> None:
    rng = random.Random(seed)
    document = drawn(rng)
    longest = document["properties"]["recovery"]["actions"][0]["timeout"]
    spec = {
        "create_s": rng.choice([1.0, longest * 0.9]),
        "reboot_s": rng.choice([1.0, longest * 0.9]),
        "delete_s": rng.choice([1.0, 24.0]),
    }
    run(seed, document, spec)


def test_an_act_and_its_verification_share_one_timeout() -> None:
    """The reboot takes 25 s of its 30 and helps nothing: 5 s are left for looking whether it did."""
    document = policy(actions=[{"name": "REBOOT", "timeout": 30}])
    deaf = [Rule(fault=Fault.FAIL, call="check")]
    took, status = run(1, document, {"reboot_s": 25.0}, ([], deaf))
    assert 30 <= took["recover"] < 36
    assert status == "FAILED"


def test_an_act_that_used_up_its_timeout_is_looked_at_all_the_same() -> None:
    """It is done right after the deadline: `rise` looks are what makes its success count."""
    document = policy(actions=[{"name": "REBOOT", "timeout": 10}], rise=2)
    took, status = run(1, document, {"reboot_s": 10.2}, ([], []))
    assert 10 <= took["recover"] < 13
    assert status == "SUCCEEDED"


def test_a_fence_and_a_deletion_that_hang_both_count() -> None:
    document = policy(actions=[{"name": "RECREATE", "timeout": 30}], node_force_recreate=True)
    hangs = [Rule(fault=Fault.HANG, call="fence"), Rule(fault=Fault.STUCK, call="*:DELETE")]
    took, _ = run(1, document, {}, (hangs, []))
    assert 30 + 20 <= took["fence"] < 30 + 20 + 8
