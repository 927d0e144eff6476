"""Attaching a policy that could not work here is refused, and the refusal names the place."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.functional.api.live import POLICY, Live, running

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


PROGRAMS = {
    "grow": {"argv": ["/bin/true"]},
    "mend": {"argv": ["/bin/true"], "in_place": True},
}
UNFENCED = (
    "recovery.actions.1: the COMMAND workflow 'grow' would never be run: it may start a second"
)
CONSENT = "  recovery:\n    node_force_recreate: true\n"


def test_a_workflow_that_nothing_would_let_run_is_refused(tmp_path: Path) -> None:
    """It may start a second copy, and nobody could prove that the first is gone."""
    command = {"enabled": True, "commands": PROGRAMS}
    with running(tmp_path / "state", drivers={"COMMAND": command}) as live:
        live.profile("run")
        live.cluster("bare", "run", 0)
        texts = {
            name: POLICY.replace(RECREATE, f"{RECREATE}      - {{name: {name}, type: COMMAND}}\n")
            for name in PROGRAMS
        }
        live.policy("grows", texts["grow"])
        told = live.act("bare", "policy_attach", {"policy_id": "grows"}, want=400)
        assert UNFENCED in str(told), told
        assert "add fencing: [COMPUTE]" in str(told)
        assert not live.call("GET", "/clusters/bare")["cluster"]["policies"]
        fitting = {
            "mends": texts["mend"],
            "fences": texts["grow"].replace(
                "  recovery:\n", "  recovery:\n    fencing: [COMPUTE]\n"
            ),
            "consents": texts["grow"].replace("  recovery:\n", CONSENT),
        }
        for name, text in fitting.items():
            live.policy(name, text)
            live.act("bare", "policy_attach", {"policy_id": name}, want=202)
            live.act("bare", "policy_detach", {"policy_id": name}, want=202)
