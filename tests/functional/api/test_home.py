"""Where a local process lives is written down before its first copy can be there, come what may."""

from __future__ import annotations

from pathlib import Path

from tests.functional.api.live import running


def test_a_creation_that_failed_left_its_home(tmp_path: Path) -> None:
    with running(tmp_path / "state", engine=True) as live:
        home = live.service.ctx.home
        assert home is not None
        live.profile("p", {"command": ["/nowhere/to/be/found"]})
        body = {"node": {"name": "n", "profile_id": "p"}}
        live.clustering("POST", "/nodes", body, want=202)
        node = live.until("/nodes/n", lambda answer: answer["node"]["status"] == "ERROR")["node"]
        assert home.stamp().items() <= node["attributes"].items()
        live.drop("node", "n")
