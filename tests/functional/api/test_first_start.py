"""A node whose first start fails is healed like any other, whatever way its policy has of asking."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.functional.api.live import POLICY, Live

STATUS = "      - type: NODE_STATUS_POLLING\n"
URL = '      - {type: NODE_STATUS_POLL_URL, options: {poll_url: "http://{node_ip}:{port}/"}}\n'
PATIENT = POLICY.replace("node_update_timeout: 2", "node_update_timeout: 60")
CASES = {
    "url": PATIENT.replace(STATUS, URL),
    "all": PATIENT.replace(STATUS, STATUS + URL).replace(
        "    rise: 1\n", "    rise: 1\n    recovery_conditional: ALL_FAILED\n"
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_node_that_never_came_to_be_is_made(healing: Live, tmp_path: Path, case: str) -> None:
    """No copy was ever made is a fact; a URL without its port is not merely "could not ask"."""
    name = f"first-{case}"
    program = tmp_path / "start"
    spec = {"command": [str(program), "{port}"], "port": "auto", "stop_timeout": 1}
    healing.profile(name, spec)
    healing.policy(name, CASES[case])
    healing.call("POST", "/stop", {"reason": "its program is to be there first"}, want=201)
    healing.cluster(name, name, 1, name)
    healing.until(f"/nodes/{name}-1", lambda a: a["node"]["status"] == "ERROR")
    program.touch(mode=0o700)
    program.write_text('#!/bin/sh\nexec python3 -m http.server "$1" --bind 127.0.0.1\n')
    healing.call("DELETE", "/stop")
    # The first one, which stands last: where a page answers late there may be another.
    found = healing.until(
        f"/incidents?node={name}-1",
        lambda a: a["incidents"] and a["incidents"][-1]["state"] == "recovered",
    )
    assert found["incidents"][-1]["cause"] == "gone"
    healing.until(f"/clusters/{name}", lambda a: a["cluster"]["health"]["healthy"] == 1)
