"""`/openapi.json` is true: what it allows is answered as it says, and nothing is ever a 500.

Run as anybody would, by the command line. `YAFFLE_ACCEPTANCE_EXAMPLES=100` looks longer; the seed is
fixed, so that a red run stays red.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.rig import Api, Server, serving
from tests.acceptance.world import World

EXAMPLES = int(os.environ.get("YAFFLE_ACCEPTANCE_EXAMPLES") or 3)
LONG = EXAMPLES > 3
BOUND_S = 600 if not LONG else 7200
LEFT_OUT = {
    "unsupported_method": "Senlin answers 404 to a wrong method, and so do we",
    "positive_data_acceptance": "a name that nobody has fits the schema and is refused with reason",
    "missing_required_header": "no header is required",
    "ignored_auth": "on loopback nobody has to say who he is",
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own, where no command can be run: generated profiles are anybody's guess."""
    with serving(tmp_path_factory.mktemp("schemathesis"), local_process=False) as server:
        api = Api(server.root)
        world = World(api, server)
        for kind in ("senlin.policy.deletion-1.0", "senlin.policy.health-1.2"):
            world.policy(kind)
        api.close()
        yield server


@pytest.mark.timeout(BOUND_S + 60)
@pytest.mark.parametrize("part", ["/v1", "/yaffle"])
def test_the_document_is_true(target: Server, tmp_path: Path, part: str) -> None:
    command = [
        str(Path(sys.executable).parent / "schemathesis"),
        *("run", f"{target.root}/openapi.json", "--seed", "1", "--workers", "1"),
        *("--max-examples", str(EXAMPLES), "--include-path-regex", f"^{part}"),
        *("--phases", "examples,coverage,fuzzing,stateful"),
        *("--exclude-checks", ",".join(LEFT_OUT), "--max-failures", "60"),
        *("--continue-on-failure", "--suppress-health-check", "all", "--warnings", "off"),
        *("--generation-database", "none", "--request-timeout", "60"),
        *(() if LONG else ("--no-shrink",)),
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=BOUND_S, check=False
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-3000:]
