"""`GET /yaffle/v1/engines`: who lives, who was lost, who has ended, and what each holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import insert
from tests.functional.api.live import running

from yaffle.model.ids import ClusterId, EngineId, Epoch
from yaffle.store import leases, observer_partitions, tables, watch_leases


def test_engines_and_what_they_watch(tmp_path: Path) -> None:
    with running(tmp_path / "state") as live:
        live.profile("p")
        live.cluster("web", "p", 2)
        live.cluster("db", "p", 1)

        def furnish(conn: Any) -> None:
            now_us = leases.now(conn)
            for name, ago_s, ended in (("live", 1, None), ("lost", 300, None), ("gone", 300, 30)):
                conn.execute(
                    insert(tables.engines).values(
                        id=name,
                        host=name,
                        pid=7,
                        epoch=100,
                        started_us=now_us - 900_000_000,
                        seen_us=now_us - ago_s * 1_000_000,
                        stopped_us=None if ended is None else now_us - ended * 1_000_000,
                        schema=3,
                        version="0.1.0",
                    )
                )
            me = EngineId("live")
            found = watch_leases.overview(conn, lease_s=100).holdings
            free = [h for h in found if h.free][:1]
            watch_leases.take(conn, me, Epoch(100), free, lease_s=100)
            observer_partitions.record(conn, EngineId("lost"), [ClusterId(found[0].cluster_id)])

        live.write(furnish)
        answer = live.call("GET", "/engines")
        states = {e["id"]: e["state"] for e in answer["engines"]}
        assert states == {"live": "live", "lost": "lost"}
        (alive,) = (e for e in answer["engines"] if e["id"] == "live")
        assert (alive["watches"], alive["version"], alive["schema"]) == (1, "0.1.0", 3)
        (lost,) = (e for e in answer["engines"] if e["id"] == "lost")
        assert [b["cluster"] in {"web", "db"} for b in lost["blind_for"]] == [True]
        covered = answer["coverage"]
        assert (covered["clusters"], covered["clusters_watched"]) == (2, 1)
        assert 0 < covered["ratio"] < 1
        everyone = live.call("GET", "/engines?all=true")["engines"]
        assert {e["id"]: e["state"] for e in everyone} == {**states, "gone": "stopped"}
