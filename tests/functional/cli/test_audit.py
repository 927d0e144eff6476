"""The audit log of a real server: changes and refusals, who and from where, and no secret."""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx
import pytest
from tests.functional.cli.support import run_here
from tests.packaging.serving import Serving, until

TOKEN = "0123456789abcdef-audit"
HOOK = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"


def entries(folder: Path) -> list[dict[str, object]]:
    found = []
    for path in sorted((folder / "audit").glob("serve-*.log")):
        found += [json.loads(line) for line in path.read_text().splitlines()]
    return [one for one in found if one["event"] == "request"]


@pytest.mark.slow
def test_who_changed_what_and_who_was_refused(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(f"mara:{TOKEN} project=web roles=reader\nben:{TOKEN}-2\n")
    words = ("audit", "verify", "--state-dir", str(tmp_path / "state"))
    assert run_here(*words).code == 2
    with Serving(tmp_path, "--token-file", str(tokens)) as server:
        with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:

            def ask(method: str, path: str, token: str = "") -> int:
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                body = {"reason": "x"} if method == "POST" else None
                return client.request(method, path, headers=headers, json=body).status_code

            assert ask("GET", "/v1/clusters", TOKEN) == 200
            assert ask("GET", "/v1/clusters?token=hidden") == 401
            assert ask("GET", "/v1/clusters", "wrong-token-of-somebody") == 401
            assert ask("POST", "/yaffle/v1/stop", TOKEN) == 403
            assert ask("POST", "/yaffle/v1/stop", f"{TOKEN}-2") == 201
            assert ask("POST", f"/v1/webhooks/{HOOK}/trigger?V=1") == 404
        found = until(lambda: len(e := entries(tmp_path / "state")) == 5 and e)
        log = "".join(p.read_text() for p in (tmp_path / "state" / "audit").iterdir())
        assert run_here(*words).code == 0
        server.end()
    told = [(e["method"], e["path"], e["status"], e["user"], e["project"]) for e in found]
    assert told == [
        ("GET", "/v1/clusters", 401, "", ""),
        ("GET", "/v1/clusters", 401, "", ""),
        ("POST", "/yaffle/v1/stop", 403, "mara", "web"),
        ("POST", "/yaffle/v1/stop", 201, "ben", "default"),
        ("POST", "/v1/webhooks/0f1e2d3c…/trigger", 404, "", ""),
    ]
    assert {e["peer"] for e in found} == {"127.0.0.1"}
    assert all(str(e["request"]).startswith("req-") and e["time"] for e in found)
    assert not any(secret in log for secret in (TOKEN, HOOK, "wrong-token", "hidden"))
    done = run_here(*words, "--json")
    assert (done.code, done.json["problems"]) == (0, [])
    mark = f"{done.json['last']}:{done.json['head']}"
    assert run_here(*words, "--expect", mark).code == 0
    assert run_here(*words, "--expect", f"1:{'0' * 64}").code == 1
    [path] = (tmp_path / "state" / "audit").glob("serve-*.log")
    path.write_bytes(path.read_bytes().replace(b'"ben"', b'"eve"'))
    done = run_here(*words)
    assert (done.code, "it was changed" in done.err) == (1, True)
    if os.geteuid() != 0:
        path.chmod(0)
        assert run_here(*words).code == 2
