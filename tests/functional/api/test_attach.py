"""Attaching a policy that could not work here is refused, and the refusal names the place."""

from __future__ import annotations

import pytest
from tests.functional.api.live import POLICY, Live

STATUS = "      - type: NODE_STATUS_POLLING\n"
RECREATE = "      - {name: RECREATE, timeout: 120}\n"

LACKING = [
    pytest.param(
        POLICY.replace(STATUS, STATUS + "      - type: LIFECYCLE_EVENTS\n"),
        "detection.detection_modes.1: no broker to listen to is configured",
        id="mode",
    ),
    pytest.param(
        POLICY.replace(STATUS, "      - {type: LB_STATUS_POLLING, options: {pool: web}}\n"),
        "detection.detection_modes.0: there is no balancer here",
        id="balancer",
    ),
    pytest.param(
        POLICY.replace(RECREATE, RECREATE + "      - {name: flow, type: MISTRAL_WORKFLOW}\n"),
        "recovery.actions.1: Mistral workflows are off",
        id="workflow",
    ),
    pytest.param(
        POLICY.replace("  recovery:\n", "  recovery:\n    fencing: [COMPUTE, HOST]\n"),
        "recovery.fencing.1: HOST has no devices here",
        id="fencer",
    ),
    pytest.param(
        POLICY.replace("  recovery:\n", "  recovery:\n    snapshot: {take: true}\n"),
        "recovery.snapshot: profile type yaffle.local.process-1.0 cannot take snapshots",
        id="snapshot",
    ),
    pytest.param(
        POLICY.replace("RECREATE", "EVACUATE"),
        "EVACUATE",
        id="operation",
    ),
]


@pytest.fixture(scope="module")
def described(server: Live) -> Live:
    server.profile("attached")
    server.cluster("bare", "attached", 0)
    return server


@pytest.mark.parametrize(("text", "said"), LACKING)
def test_a_policy_that_cannot_work_here_is_refused_by_its_place(
    described: Live, text: str, said: str, request: pytest.FixtureRequest
) -> None:
    name = f"lacks-{request.node.callspec.id}"
    described.policy(name, text)
    told = described.act("bare", "policy_attach", {"policy_id": name}, want=400)
    assert said in str(told), told
    assert not described.call("GET", "/clusters/bare")["cluster"]["policies"]
