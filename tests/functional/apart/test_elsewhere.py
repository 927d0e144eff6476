"""Local processes of one home, watched by an engine of another: not known, hence not touched."""

from __future__ import annotations

import signal
import uuid
from pathlib import Path

from tests.functional.apart.fleet import BOUND_S, act, ask, fleet_on, get, of_action, ready
from tests.functional.cli.support import POLICY, Running, living, profile_document, swept, wait_for


def test_who_takes_over_from_elsewhere_judges_nothing_gone(
    postgres_url: str, tmp_path: Path
) -> None:
    mark = f"elsewhere-{uuid.uuid4().hex}"
    with swept(mark), fleet_on(postgres_url, tmp_path / "here") as fleet:
        fleet.migrate()
        home = fleet.start("serve")
        ready(home)
        ask(home, "profile", "create", "page", "-", given=profile_document(mark))
        ask(home, "policy", "create", "care", "-", given=POLICY)
        ask(
            home, "cluster", "create", "web", "--profile", "page", "--size", "1", "--policy", "care"
        )
        wait_for(lambda: _node(home)["health"] == "healthy", within_s=BOUND_S)
        before = living(mark)
        home.signal(signal.SIGKILL)
        home.end()
        fleet.members.remove(home)
        stranger = fleet.start("serve", YAFFLE_STATE_DIR=str(tmp_path / "there"))
        ready(stranger)
        _not_known(stranger)
        _not_touched(stranger)
        assert living(mark).keys() == before.keys()
        fleet.stop(stranger)
        back = fleet.start("serve")
        ready(back)
        wait_for(lambda: _node(back)["health"] == "healthy", within_s=BOUND_S)
        ask(back, "cluster", "delete", "web")
        assert living(mark) == {}


def _node(api: Running) -> dict[str, object]:
    found: dict[str, object] = get(api, "/yaffle/v1/nodes").json()["nodes"][0]
    return found


def _not_known(stranger: Running) -> None:
    wait_for(lambda: _node(stranger)["backend_status"] == "elsewhere", within_s=BOUND_S)
    wait_for(lambda: _node(stranger)["health"] == "unknown", within_s=BOUND_S)
    why = get(stranger, f"/yaffle/v1/nodes/{_node(stranger)['id']}/why").json()["why"]
    assert why["watcher"]["pid"] == stranger.process.pid
    assert "another state directory of this host" in " ".join(why["lines"])
    assert get(stranger, "/yaffle/v1/incidents").json()["incidents"] == []


def _not_touched(stranger: Running) -> None:
    """A person who insists is refused, too."""
    ident = act(stranger, str(_node(stranger)["id"]), {"recover": {"operation": "REBOOT"}})
    wait_for(
        lambda: of_action(stranger, ident)["status"] in {"FAILED", "SUCCEEDED"}, within_s=BOUND_S
    )
    row = of_action(stranger, ident)
    assert row["status"] == "FAILED"
    assert "another state directory" in row["status_reason"], row
