"""A webhook ends with whoever made it, and the doctor names those that are left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.functional.api.live import SLEEPER, TYPE, Live, cluster_body, running
from tests.functional.api.people import private
from tests.waiting import wait_for

ROOT = "root:root-0123456789abcdef project=one roles=admin\n"
ANN = "ann:ann-0123456789abcdef project=one roles=member\n"


def asked(live: Live, who: str, method: str, path: str, body: object = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {who}-0123456789abcdef"}
    with live.client(headers) as client:
        return client.request(method, path, json=body)


def made(live: Live, who: str, path: str, body: object, key: str) -> Any:
    answer = asked(live, who, "POST", f"/v1{path}", body)
    assert answer.status_code in {201, 202}, answer.text
    return answer.json()[key]


def hooked(live: Live, by: str, name: str) -> str:
    """Make a webhook of that person's; return its path."""
    wanted = {"name": name, "type": "webhook", "cluster_id": "web", "action": "CLUSTER_CHECK"}
    ident = made(live, by, "/receivers", {"receiver": wanted}, "receiver")["id"]
    return f"/v1/webhooks/{ident}/trigger?V=2"


def called(live: Live, path: str) -> httpx.Response:
    with live.client() as client:
        return client.post(path)


def orphans(live: Live) -> str:
    checks = asked(live, "root", "GET", "/yaffle/v1/doctor").json()["checks"]
    (found,) = (one for one in checks if one["name"] == "receivers")
    return f"{found['status']} {found['detail']}"


@pytest.mark.parametrize(
    "left",
    [
        pytest.param("", id="removed"),
        pytest.param("ann:ann-0123456789abcdef project=one roles=reader\n", id="may-only-look"),
        pytest.param(
            "ann:ann-0123456789abcdef project=two roles=member\n", id="of-another-project"
        ),
    ],
)
def test_a_webhook_ends_with_its_owner(tmp_path: Path, left: str) -> None:
    file = private(tmp_path / "tokens", ROOT + ANN)
    with running(tmp_path / "state", server={"token_file": file}) as live:
        spec = {"type": TYPE, "version": "1.0", "properties": SLEEPER}
        body = {"profile": {"name": "p", "spec": spec}}
        profile = made(live, "root", "/profiles", body, "profile")["id"]
        made(live, "root", "/clusters", cluster_body("web", profile), "cluster")
        anns, roots = hooked(live, "ann", "anns"), hooked(live, "root", "roots")
        # No engine runs: what matters is that it is not refused for its owner.
        assert called(live, anns).status_code != 403
        assert "ok 2; 0 whose owner" in orphans(live)

        private(file, ROOT + left)
        # Asked of the doctor: who calls a webhook again and again is told that it is too often.
        wait_for(lambda: "1 whose owner" in orphans(live))
        refused = called(live, anns)
        assert refused.status_code == 403
        assert "deletes it, and makes another one" in refused.text
        assert "ann " not in refused.text
        assert called(live, roots).status_code != 403
        assert "warn 2; 1 whose owner or cluster is gone: anns (ann may change nothing" in orphans(
            live
        )

        private(file, ROOT + ANN)
        wait_for(lambda: "0 whose owner" in orphans(live))
        assert called(live, anns).status_code != 403
