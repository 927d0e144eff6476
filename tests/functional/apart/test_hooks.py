"""A webhook works through every API of one database; each that has its key shows its URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.functional.apart.fleet import address_of, ask, fleet_on, get
from tests.functional.cli.support import profile_document


@pytest.mark.parametrize("shared", [True, False])
def test_through_another_machines_api(postgres_ready: str, tmp_path: Path, shared: bool) -> None:
    here, there = ({"YAFFLE_STATE_DIR": str(tmp_path / name)} for name in ("here", "there"))
    with fleet_on(postgres_ready, tmp_path / "state") as fleet:
        first = fleet.start("api", **here)
        ask(first, "profile", "create", "p", "-", given=profile_document("p"))
        ask(first, "cluster", "create", "web", "--profile", "p", "--size", "0", "--no-wait")
        words = ("receiver", "create", "r", "--cluster", "web", "--action", "CLUSTER_CHECK")
        made = ask(first, *words, "--json").json["receiver"]
        key = tmp_path / "here" / "receivers.key"
        more = {"YAFFLE_RECEIVERS__KEYS_FILE": str(key)} if shared else {}
        second = fleet.start("api", **there, **more)

        def found() -> Any:
            return get(second, f"/v1/receivers/{made['id']}").json()["receiver"]

        path = urlsplit(made["channel"]["alarm_url"]).path
        called = httpx.post(f"{address_of(second)}{path}?V=2", timeout=60)
        assert called.status_code == 202, called.text
        if shared:
            assert found() == made
        else:
            assert found() == made | {"id": found()["id"], "channel": {}}
            assert found()["id"] != made["id"]
        ask(second, "receiver", "delete", found()["id"])
        assert httpx.post(f"{address_of(first)}{path}?V=2", timeout=60).status_code == 404
