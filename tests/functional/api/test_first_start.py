"""A node whose first start fails is healed like any other, whatever way its policy has of asking."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.functional.api.live import POLICY, Live

STATUS = "      - type: NODE_STATUS_POLLING\n"
URL = '      - {type: NODE_STATUS_POLL_URL, options: {poll_url: "http://{node_ip}:{port}/"}}\n'
CASES = {
    "url": POLICY.replace(STATUS, URL),
    "all": POLICY.replace(STATUS, STATUS + URL).replace(
        "    rise: 1\n", "    rise: 1\n    recovery_conditional: ALL_FAILED\n"
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_node_that_never_came_to_be_is_made(healing: Live, tmp_path: Path, case: str) -> None:
    """No copy was ever made is a fact; a URL without its port is not merely "could not ask"."""
    name = f"first-{case}"
    failing_once = (
        f"mkdir {tmp_path}/tried 2>/dev/null && exit 1;"
        " exec python3 -m http.server {port} --bind 127.0.0.1"
    )
    spec = {"command": ["sh", "-c", failing_once], "port": "auto", "stop_timeout": 1}
    healing.profile(name, spec)
    healing.policy(name, CASES[case])
    healing.cluster(name, name, 1, name)
    healing.until(
        f"/clusters/{name}", lambda a: a["cluster"]["health"]["healthy"] == 1, within_s=40
    )
    incidents = healing.call("GET", f"/incidents?node={name}-1")["incidents"]
    assert [(i["cause"], i["state"]) for i in incidents] == [("gone", "recovered")]
