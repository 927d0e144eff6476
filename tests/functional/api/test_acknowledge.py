"""A node that no recovery helps needs a human, and stays so until one has acknowledged it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.functional.api.live import POLICY, Live, running
from tests.functional.cli.support import run_here

from yaffle.cli import durations

ONE_TRY = POLICY + "    retry: {attempts: 1, backoff: 1, max_backoff: 1, stable_after: 60}\n"


def test_exhausted_then_acknowledged(tmp_path: Path) -> None:
    spec = {"command": ["false"]}
    with running(tmp_path / "state", engine=True) as live:
        live.profile("broken", spec)
        live.policy("once", ONE_TRY)
        live.cluster("web", "broken", 1, "once")
        found = live.until(
            "/incidents",
            lambda a: a["incidents"] and a["incidents"][0]["state"] == "exhausted",
        )
        node = live.until("/nodes/web-1", lambda a: a["node"]["retry"]["exhausted"])["node"]
        assert node["status"] == "ERROR"
        ident = found["incidents"][0]["id"]
        _needs_a_human_everywhere(live, ident[:8])
        # Before it is tried once more, and in vain.
        live.call("POST", "/stop", {"reason": "the test ends"}, want=201)
        seen = live.call("POST", f"/incidents/{ident}/acknowledge", {"by": "mara"})["incident"]
        assert seen["acknowledged_by"] == "mara"
        node = live.call("GET", "/nodes/web-1")["node"]
        assert node["retry"]["exhausted"] is False
        # It may be held again by then, but not for this reason.
        assert (node["hold"] or {}).get("reason") != "needs-human"
        assert "needs-human" not in live.call("GET", "/clusters/web")["cluster"]["holds"]
        live.drop("cluster", "web")
        live.until("/clusters", lambda a: not a["clusters"])


def _needs_a_human_everywhere(live: Live, ident: str) -> None:
    """Every view that a person may open first has to say it, with the word that ends it."""

    def said(*words: str) -> str:
        done = run_here(*words, env={"YAFFLE_SERVER": f"http://{live.address}"})
        assert done.code == 0 or words == ("doctor",), done
        return done.out

    ack = f"yaffle incident ack {ident}"
    assert ack in said("status")
    assert "1 needs-human" in said("status")
    assert re.search(r"open incidents +0; 1 more node needs a human", said("status"))
    # As long as the time line says, not from the moment on at which it was believed.
    (shown,) = live.call("GET", "/incidents")["incidents"]
    assert shown["took_ms"] > (shown["ended_us"] - shown["opened_us"]) / 1000
    assert durations.shown(shown["took_ms"] / 1000) in said("incident", "list")
    assert "held: needs-human" in said("node", "list")
    assert ack in said("node", "show", "web-1")
    assert "1 needs-human" in said("cluster", "list")
    assert "1 needs-human" in said("cluster", "show", "web")
    why = said("why", "web-1")
    assert ack in why
    # Not only that it rests or waits: why it could not be helped.
    assert "The last attempt failed: " in why
    assert "RECREATE, at its create: " in why
    assert "the command ended at once, exit code 1;" in why
    found = {c["name"]: c for c in live.call("GET", "/doctor")["checks"]}["needs a human"]
    assert found["status"] == "warn"
    assert f"web-1 (incident {ident})" in found["detail"]
