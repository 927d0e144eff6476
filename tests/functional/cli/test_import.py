"""Coming from a Senlin: planned first, taken over under the same ids, and twice is once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from sqlalchemy import update
from tests.functional.api.live import Live, running
from tests.functional.cli import fake_senlin
from tests.functional.cli.fake_senlin import (
    AFFINITY,
    HEALTH,
    LOCAL,
    OLD,
    OUT,
    PROJECT,
    QUEUE,
    STACK,
    WEB,
    ident,
    objects,
    serving,
)
from tests.functional.cli.support import Done, run_here

from yaffle.core.imports.planned import Outcome
from yaffle.engine.commands import Import
from yaffle.engine.commands.imports import Lists
from yaffle.errors import Forbidden
from yaffle.model.authz import RIGHTS, Principal, Role
from yaffle.store.tables import policies

REFUSED = {STACK, AFFINITY, OLD, QUEUE, ident("f", 2)}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The server of these tests logs to the stdout that the commands print to."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Live]:
    """A Yaffle without an engine: what is imported stays as it was imported."""
    with running(tmp_path / "yaffle") as live:
        yield live


def importing(server: Live, source: str | Path, *words: str, **env: str) -> Done:
    at = {"YAFFLE_SERVER": f"http://{server.address}", **env}
    return run_here("import", "senlin", "--from", str(source), "--json", *words, env=at)


def outcomes(done: Done) -> dict[str, str]:
    return {item["id"]: item["outcome"] for item in done.json["import"]["items"]}


def everything(server: Live) -> dict[str, Any]:
    return {
        name: server.clustering("GET", f"/{name}", want=200)[name]
        for name in ("profiles", "policies", "clusters", "nodes", "events")
    }


def test_a_live_senlin_is_planned_then_taken_over_then_left_alone(server: Live) -> None:
    before = everything(server)
    with serving(objects(), {"X-Auth-Token": "secret"}) as senlin:
        plan = importing(server, senlin.url, OS_TOKEN="secret")
        assert plan.code == 1, "something is refused, and a script has to hear of it"
        assert {i for i, o in outcomes(plan).items() if o == "refuse"} == REFUSED
        assert {i for i, o in outcomes(plan).items() if o == "create"} == {
            LOCAL, HEALTH, WEB, OUT, ident("f", 1), *(ident("e", n) for n in (1, 2, 3)),
        }  # fmt: skip
        assert "add --apply" in plan.err
        assert "in force at once" in plan.err
        assert everything(server) == before, "a plan changes nothing"

        held = importing(server, f"{senlin.url}/v1/", "--apply", OS_TOKEN="secret")
        assert held.code == 1
        assert "--skip-refused" in held.err
        assert everything(server) == before

        done = importing(server, senlin.url, "--apply", "--skip-refused", OS_TOKEN="secret")
        assert done.code == 0, done.err
        assert outcomes(done) == outcomes(plan), "the plan was true"

        after = everything(server)
        again = importing(server, senlin.url, "--apply", "--skip-refused", OS_TOKEN="secret")
        assert "create" not in outcomes(again).values()
        assert outcomes(again)[WEB] == "present"
        assert everything(server) == after, "twice is once"


def test_what_clients_hold_is_kept(server: Live) -> None:
    with serving(objects()) as senlin:
        assert importing(server, senlin.url, "--apply", "--skip-refused").code == 0
    with server.service.store.engine.connect() as conn:
        found = conn.exec_driver_sql("select next_index from clusters where id = ?", (WEB,))
        assert found.scalar_one() == 4, "the next member gets a new index"
    with server.client({"OpenStack-API-Version": "clustering 1.14"}) as client:

        def shown(path: str) -> Any:
            answer = client.get(f"/v1/{path}")
            assert answer.status_code == 200, answer.text
            return answer.json()

        cluster = shown(f"clusters/{WEB}")["cluster"]
        (given,) = (c for c in objects()["clusters"] if c["id"] == WEB)
        for key in ("name", "project", "user", "init_at", "created_at", "config", "metadata",
                    "desired_capacity", "min_size", "max_size", "timeout", "profile_id"):  # fmt: skip
            assert cluster[key] == given[key], key
        assert cluster["policies"] == [HEALTH]
        nodes = {n["name"]: n for n in shown("nodes")["nodes"]}
        kept = [(n["id"], n["physical_id"], n["index"], n["tainted"]) for n in nodes.values()]
        assert kept == [(ident("e", n), f"local:{n}", n, n == 2) for n in (1, 2, 3)]
        assert [n["status"] for n in nodes.values()] == ["ACTIVE", "ACTIVE", "ERROR"]
        assert "CREATING" in nodes["web-003"]["status_reason"]
        assert shown(f"profiles/{LOCAL}")["profile"]["spec"] == objects()["profiles"][0]["spec"]
        receiver = shown(f"receivers/{OUT}")["receiver"]
        url = receiver["channel"]["alarm_url"]
        assert url == f"http://{server.address}/v1/webhooks/{OUT}/trigger?V=2&count=1"
        assert receiver["project"] == PROJECT
        assert client.post(url).status_code != 404, "the same path opens it"


def test_nothing_is_built_and_everything_is_told(server: Live) -> None:
    with serving(objects()) as senlin:
        importing(server, senlin.url, "--apply", "--skip-refused")
    assert server.call("GET", "/actions")["actions"] == []
    with server.service.store.engine.connect() as conn:
        told = conn.exec_driver_sql("select action, oid, project from events").all()
    assert {(action, oid) for action, oid, _ in told} == {
        ("PROFILE_IMPORT", LOCAL), ("POLICY_IMPORT", HEALTH), ("CLUSTER_IMPORT", WEB),
        ("CLUSTER_ATTACH_POLICY", WEB), ("RECEIVER_IMPORT", f"{OUT[:8]}…"),
        *(("NODE_IMPORT", ident("e", n)) for n in (1, 2, 3)),
    }  # fmt: skip
    assert {project for *_, project in told} == {PROJECT}


def test_what_is_not_known_yet_has_its_grace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YAFFLE_ENGINE__DEFAULT_INTERVAL", "0.2")
    lists = objects(nodes=1)
    (health,) = (p for p in lists["policies"] if p["id"] == HEALTH)
    detection = {"interval": 1, "node_update_timeout": 600}
    health["spec"]["properties"]["detection"] |= detection
    bound = lists.pop("cluster_policies")
    path = tmp_path / "dump.json"

    def given(more: dict[str, Any]) -> None:
        path.write_text(json.dumps(lists | more))
        done = importing(live, path, "--apply", "--skip-refused")
        assert done.code == 0, done.err

    with running(tmp_path / "yaffle", engine=True) as live:
        # In two pieces, as a large import comes: meanwhile nobody says what is a failure.
        given({})
        live.until("/nodes", lambda found: _is_over(live, found["nodes"][0]))
        given({"cluster_policies": bound})

        def looked(found: Any) -> bool:
            (node,) = found["nodes"]
            return node["backend_status"] != ""

        # Its process is nowhere, and the policy would have it made anew: but not yet.
        (node,) = live.until("/nodes", looked)["nodes"]
        assert node["health"] == "initializing"
        assert live.call("GET", "/actions")["actions"] == []


def _is_over(live: Live, node: dict[str, Any]) -> bool:
    """Whether the watch that has no policy yet has let a node's grace go by."""
    memory = live.service.engine.memory_of(node["id"])
    return memory is not None and memory.grace_us is None


def test_a_dump_of_tables(server: Live, tmp_path: Path) -> None:
    lists = objects()
    names = {"profiles": "profile", "policies": "policy", "clusters": "cluster", "nodes": "node",
             "cluster_policies": "cluster_policy", "receivers": "receiver"}  # fmt: skip

    def column(key: str, value: object) -> tuple[str, object]:
        text = json.dumps(value) if isinstance(value, (dict, list)) else value
        flat = int(value) if isinstance(value, bool) else text
        return ("meta_data" if key == "metadata" else key), flat

    tables = {
        names[kind]: [dict(column(k, v) for k, v in row.items()) for row in rows]
        for kind, rows in lists.items()
    }
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({**tables, "event": [], "action": []}))
    done = importing(server, path, "--apply", "--skip-refused", "--project", "default")
    assert done.code == 0, done.err
    assert {i for i, o in outcomes(done).items() if o == "refuse"} == REFUSED
    assert server.call("GET", f"/clusters/{WEB}")["cluster"]["name"] == "web"
    api = tmp_path / "api.json"
    api.write_text(json.dumps(lists))
    second = importing(server, api)
    assert set(outcomes(second).values()) == {"present", "refuse"}, "both shapes mean the same"


def test_large_imports_come_in_pieces(server: Live, tmp_path: Path) -> None:
    lists = objects(nodes=950)
    lists["nodes"] = [n | {"metadata": {"k": "x" * 600}} for n in lists["nodes"]]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(lists))
    plan = importing(server, path)
    assert outcomes(plan)[ident("e", 950)] == "create", "a piece knows of the pieces before it"
    assert plan.err.count("nodes") >= 2
    assert importing(server, path, "--apply", "--skip-refused").code == 0
    assert len(server.call("GET", "/nodes?limit=1000")["nodes"]) == 950


def test_people_read_a_table(server: Live, tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(objects()))
    at = {"YAFFLE_SERVER": f"http://{server.address}"}
    done = run_here("import", "senlin", "--from", str(path), env=at)
    (line,) = (line for line in done.out.splitlines() if line.startswith("refuse   profiles"))
    assert "'os.heat.stack-1.0' is not installed" in line
    assert "create: 2 more nodes" in done.out
    assert "plan: create 8, refuse 5" in done.out


WRONG: list[Any] = [
    pytest.param(["--from", "/no/such.json"], 2, "No such file", id="no-file"),
    pytest.param(["--from", "{tmp}/broken.json"], 2, "it is no JSON", id="no-json"),
    pytest.param(["--from", "{tmp}/other.json"], 2, "knots: unknown", id="no-dump"),
    pytest.param(["--from", "http://127.0.0.1:1"], 5, "127.0.0.1:1/v1/profiles", id="away"),
    pytest.param(["--from", "{fake}"], 2, "HTTP 401 Authenticate, please.", id="no-token"),
    pytest.param(["--from", "{fake}", "--user", "me"], 2, "belong together", id="half"),
    pytest.param(
        ["--from", "{fake}", "--user", "a", "--password", "b", "--token", "c"],
        2,
        "either",
        id="both",
    ),
]


@pytest.mark.parametrize(("words", "code", "why"), WRONG)
def test_what_went_wrong_is_named(
    server: Live, tmp_path: Path, words: list[str], code: int, why: str
) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text('{"knots": []}')
    at = {"YAFFLE_SERVER": f"http://{server.address}"}
    with serving(objects(), {"X-Auth-Token": "secret"}) as fake:
        filled = [word.format(tmp=tmp_path, fake=fake.url) for word in words]
        done = run_here("import", "senlin", *filled, env=at)
    assert (done.code, why in done.err) == (code, True), done.err


def test_http_basic(server: Live) -> None:
    with serving(objects(), {"Authorization": "Basic bWU6c2VjcmV0"}) as fake:
        done = importing(server, fake.url, "--user", "me", SENLIN_PASSWORD="secret")
    assert outcomes(done)[WEB] == "create"


def test_from_one_yaffle_to_another(server: Live, tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(objects()))
    assert importing(server, path, "--apply", "--skip-refused").code == 0
    with running(tmp_path / "second") as second:
        source = f"http://{server.address}"
        done = importing(second, source, "--apply")
        assert done.code == 0, done.err
        assert set(outcomes(done).values()) == {"create"}
        for name in ("profiles", "policies", "clusters", "nodes", "receivers"):
            lists = []
            for live in (server, second):
                with live.client() as client:
                    lists.append(client.get(f"/v1/{name}").json()[name])
            here, there = ([_timeless(row) for row in rows] for rows in lists)
            assert here == there, name


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what belongs to the place where it is."""
    return {k: v for k, v in row.items() if k not in {"updated_at", "channel"}}


def test_only_administrators_import(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("mara:0123456789abcdef0123 project=default roles=member\n")
    tokens.chmod(0o600)
    with running(tmp_path / "yaffle", server={"token_file": tokens}) as live:
        headers = {"Authorization": "Bearer 0123456789abcdef0123"}
        with live.client(headers) as client:
            answer = client.post("/yaffle/v1/import", json={})
    assert answer.status_code == 403, answer.text


def test_a_type_of_policy_that_nobody_knows_costs_nothing_else(server: Live) -> None:
    lists = objects()
    newer, odd = (
        lists["policies"][0] | {"id": ident("b", n), "type": None, "spec": spec}
        for n, spec in (
            (3, {"type": "senlin.policy.health", "version": "9.9", "properties": {}}),
            (4, {"type": ["senlin.policy.health"], "version": {}}),
        )
    )
    lists["policies"] += [newer, odd]
    found = imported(server, lists)
    assert {i for i, o in found.items() if o is Outcome.REFUSE} == {
        *REFUSED, newer["id"], odd["id"],
    }  # fmt: skip


def test_a_policy_that_a_newer_engine_wrote_costs_nothing_but_its_binding(server: Live) -> None:
    lists = objects()
    imported(server, {"policies": lists["policies"][:1]})
    newer = {"type": "senlin.policy.health", "version": "9.9", "properties": {}}
    change = update(policies).where(policies.c.id == HEALTH).values(spec=newer)
    asyncio.run(server.service.store.write(lambda conn: conn.execute(change)))
    del lists["policies"]
    found = imported(server, lists)
    assert found[ident("f", 1)] is Outcome.REFUSE
    assert found[WEB] is Outcome.CREATE


def imported(server: Live, lists: Lists) -> dict[str, Outcome]:
    asked = server.service.commands.import_objects(
        Principal(user="op", rights=RIGHTS[Role.ADMIN]),
        Import(lists=lists, dry_run=False),
        base_url="",
    )
    return {planned.id: planned.outcome for planned in asyncio.run(asked)}


def test_the_verb_itself_asks_for_the_right(server: Live) -> None:
    member = Principal(user="mara", rights=RIGHTS[Role.MEMBER])
    asked = server.service.commands.import_objects(member, Import(lists={}), base_url="")
    with pytest.raises(Forbidden):
        asyncio.run(asked)


def test_the_fake_is_honest_about_pages() -> None:
    """A page is never longer than the site allows, whatever is asked."""
    import httpx

    with serving(objects()) as fake:
        headers = {"OpenStack-API-Version": "clustering 1.14"}
        found = httpx.get(f"{fake.url}/v1/nodes?limit=200", headers=headers).json()["nodes"]
    assert len(found) == fake_senlin.PAGE_MAX
