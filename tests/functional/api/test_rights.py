"""Every route by every role, in the own project and from another one: a table, and nothing left out."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import httpx
import pytest
from fastapi import routing
from sqlalchemy import Table, insert, select, update
from starlette.routing import BaseRoute
from tests.functional.api import foreign
from tests.functional.api.live import (
    POLICY,
    SLEEPER,
    Live,
    cluster_body,
    parts,
    policy_body,
    running,
)
from tests.functional.api.people import PEOPLE, Person, token_file

from yaffle.api.app import build
from yaffle.api.bodies import Strict, ToldFailureBody
from yaffle.api.rights import OPEN, TABLE, needed
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.authz import Right
from yaffle.store import alerts, instance_ha, tables
from yaffle.store.events import Subject, append
from yaffle.store.instance_ha import Kind
from yaffle.store.tables import actions, clusters, events, incidents, nodes, policies, profiles
from yaffle.testing import ScriptedHostMonitor

KIND = "yaffle.local.process-1.0"
SPEC = {"type": "yaffle.local.process", "version": "1.0", "properties": SLEEPER}
DELETION = {"type": "senlin.policy.deletion", "version": "1.1", "properties": {}}
OWN = "/yaffle/v1"
V1 = "/v1"
HA = "/instance-ha/v1"
ROOT = PEOPLE["root"]
ADMIN = frozenset({Right.ADMIN})


# --- the world: two projects with the same things in each ----------------------------------------


@dataclass
class World:
    """One server, one client for each person."""

    live: Live
    clients: dict[str, httpx.Client]
    words: dict[str, str]
    """Part of a path → id of an object of project one."""
    others: dict[str, str]
    """The same of project two."""

    def ask(self, who: Person, method: str, path: str, body: object = None) -> httpx.Response:
        return self.clients[who.name].request(method, path, json=body)

    def made(self, who: Person, path: str, body: object, key: str) -> str:
        answer = self.ask(who, "POST", path, body)
        assert answer.status_code in {201, 202}, answer.text
        return str(answer.json()[key]["id"])


def stock(world: World, who: Person) -> dict[str, str]:
    """Make one object of each kind in that person's project; return their ids."""
    name = f"in-{who.project}"
    words = {
        "profile": world.made(
            who, f"{V1}/profiles", {"profile": {"name": name, "spec": SPEC}}, "profile"
        ),
        "policy": world.made(who, f"{V1}/policies", policy_body(name), "policy"),
    }
    body = cluster_body(name, words["profile"], 1)
    words["cluster"] = world.made(who, f"{V1}/clusters", body, "cluster")
    world.live.write(built)
    attach = {"policy_attach": {"policy_id": words["policy"]}}
    attached = world.ask(who, "POST", f"{V1}/clusters/{words['cluster']}/actions", attach)
    assert attached.status_code == 202, attached.text
    shown = world.ask(who, "GET", f"{OWN}/clusters/{words['cluster']}").json()["cluster"]
    words["node"] = shown["nodes"][0]["id"]
    words["action"] = world.ask(who, "GET", f"{OWN}/actions").json()["actions"][0]["id"]
    world.live.write(built)
    words["incident"] = world.live.write(lambda conn: incident_of(conn, who.project, words))
    words["pause"] = pause_of(world, who, words)
    words["receiver"] = receiver_of(world, who, words)
    words["event"] = event_of(world, who)
    words["host"] = f"cmp-{who.project}.example.org"
    monitors: Any = world.live.service.ctx.drivers.host_monitors
    # Nobody asks it: no engine runs.
    monitors["pcmk"] = ScriptedHostMonitor(SystemClock())
    world.live.write(lambda conn: host_of(conn, words["host"]))
    words |= world.live.write(told_of)
    words["alert"] = world.live.write(lambda conn: alert_of(conn, words["host"]))
    return words


def built(conn: Any) -> None:
    """Say that everything is there: no engine runs, and what is locked can be asked for nothing."""
    conn.execute(update(actions).values(status="SUCCEEDED", lock_key=None, end_us=1))
    conn.execute(update(clusters).values(status="ACTIVE", made_us=1))
    conn.execute(update(nodes).values(status="ACTIVE", made_us=1))


def incident_of(conn: Any, project: str, words: Mapping[str, str]) -> str:
    ident = str(uuid.uuid4())
    values = {"node_id": words["node"], "cluster_id": words["cluster"], "state": "exhausted"}
    conn.execute(insert(incidents).values(id=ident, project=project, opened_us=1, **values))
    return ident


def host_of(conn: Any, host: str) -> None:
    values = {"monitor": "pcmk", "host": host, "state": "up", "since_us": 1, "told": []}
    conn.execute(insert(tables.monitored_hosts).values(**values))


def told_of(conn: Any) -> dict[str, str]:
    """Make a failover segment, a host of it, what was told of that, and a move that came of it."""
    words = {name: str(uuid.uuid4()) for name in ("segment", "segment_host", "notification")}
    words["vmove"] = str(uuid.uuid4())
    segment = {"name": words["segment"], "service_type": "COMPUTE", "recovery_method": "auto"}
    instance_ha.add(conn, Kind.SEGMENT, {"id": words["segment"], "created_us": 1, **segment})
    host = {"name": words["segment_host"], "segment_id": words["segment"], "created_us": 1}
    instance_ha.add(conn, Kind.HOST, {"id": words["segment_host"], **host})
    told = {
        "type": "COMPUTE_HOST",
        "host": words["segment_host"],
        "host_id": words["segment_host"],
        "origin": "instance-ha",
        "generated_us": 1,
        "status": "finished",
        "created_us": 1,
    }
    instance_ha.add(conn, Kind.NOTIFICATION, {"id": words["notification"], **told})
    move = {"notification_id": words["notification"], "status": "succeeded", "created_us": 1}
    instance_ha.add(conn, Kind.MOVE, {"id": words["vmove"], **move})
    return words


def told_anew(world: World, words: Mapping[str, str]) -> Mapping[str, str]:
    """Make them again; `words` is what a request is filled in with."""
    fresh: dict[str, str] = world.live.write(told_of)
    cast("dict[str, str]", words).update(fresh)
    return fresh


def alert_of(conn: Any, host: str) -> str:
    ident = str(uuid.uuid4())
    failure = {"id": ident, "hostname": host, "failure_us": 1, "generated_us": 1}
    alerts.add(conn, failure, (), 1)
    # A number that is found nowhere else in an answer.
    seq = uuid.UUID(ident).int % 10**15 + 10**15
    values = {"failure_id": ident, "hostname": host, "endpoint": "e", "next_us": 1}
    conn.execute(insert(tables.alerts).values(seq=seq, created_us=1, **values))
    return str(seq)


def pause_of(world: World, who: Person, words: Mapping[str, str]) -> str:
    body = {"scope": "node", "target": words["node"], "reason": "x"}
    return world.made(who, f"{OWN}/maintenance", body, "maintenance")


def receiver_of(world: World, who: Person, words: Mapping[str, str]) -> str:
    body = {
        "name": "r",
        "type": "webhook",
        "cluster_id": words["cluster"],
        "action": "CLUSTER_SCALE_OUT",
    }
    return world.made(who, f"{V1}/receivers", {"receiver": body}, "receiver")


def event_of(world: World, who: Person) -> str:
    found = world.ask(who, "GET", f"{V1}/events").json()["events"]
    return str(found[-1]["id"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    path = tmp_path_factory.mktemp("rights")
    with running(path / "state", server={"token_file": token_file(path)}) as live:
        world = World(live=live, clients={}, words={}, others={})
        world.clients["nobody"] = live.client()
        for person in PEOPLE.values():
            world.clients[person.name] = live.client(person.headers)
        world.words.update(stock(world, ROOT))
        world.others.update(stock(world, PEOPLE["admin-of-two"]))
        yield world
        for client in world.clients.values():
            client.close()


# --- the table against the application -----------------------------------------------------------


def routes(live: Live) -> set[tuple[str, str]]:
    """Return method and template of every route that does something."""
    every = getattr(routing, "iter_route_contexts", iter)(build(parts(live.service)).routes)
    return {
        (method, plain(str(route.path)))  # type: ignore[attr-defined]
        for route in cast("list[BaseRoute]", list(every))
        for method in getattr(route, "methods", None) or ()
        if not answers_nowhere(str(route.path), method)  # type: ignore[attr-defined]
    }


def answers_nowhere(path: str, method: str) -> bool:
    """Whether a route is what answers where there is none, or comes along with GET."""
    catches = path.endswith("{rest:path}") or (path in {"/", "/versions", V1} and method != "GET")
    return catches or method in {"HEAD", "OPTIONS"}


def plain(path: str) -> str:
    """Return a template without the names of its parts, which two tables may give differently."""
    return re.sub(r"{\w+(:path)?}", r"{\1}", path.replace("/{project:hexid}", ""))


ROWS = [(method, path) for path, methods in TABLE.items() for method in methods]


def test_every_route_has_a_row_and_every_row_a_route(world: World) -> None:
    rows = {(method, plain(path)) for method, path in ROWS}
    assert routes(world.live) - rows == set(), "routes without a row in yaffle.api.rights"
    assert rows - routes(world.live) == set(), "rows without a route"


@pytest.mark.parametrize(
    ("method", "path", "needs"),
    [
        pytest.param("GET", "/v1/nodes/x", {Right.READ}, id="read"),
        pytest.param("HEAD", "/v1/nodes/x", {Right.READ}, id="head"),
        pytest.param("DELETE", "/v1/nodes/x", {Right.WRITE}, id="write"),
        pytest.param("GET", "/v1/clusters/x/attrs/a/b/c", {Right.READ}, id="many-parts"),
        pytest.param("POST", "/v1/webhooks/x/trigger", OPEN, id="webhook"),
        pytest.param("GET", "/v1/webhooks/x/trigger", None, id="webhook-otherwise"),
        pytest.param("GET", "/v2/nodes", OPEN, id="other-version"),
        pytest.param("GET", "/instance-ha/v1/notifications", ADMIN, id="notifications"),
        pytest.param("POST", "/instance-ha/v1/0a-f/notifications", ADMIN, id="of-a-project"),
        pytest.param("GET", "/instance-ha/v1/admin/notifications", None, id="of-a-name"),
        pytest.param("GET", "/v1/nothing", None, id="nothing"),
        pytest.param("GET", "/yaffle/v1/doctor/x", None, id="below"),
        pytest.param("GET", "//v1/nodes", None, id="empty-first-part"),
        pytest.param("OPTIONS", "*", OPEN, id="no-path"),
        pytest.param("GET", "/health/", None, id="slash"),
    ],
)
def test_what_a_place_needs(method: str, path: str, needs: set[Right] | None) -> None:
    assert needed(method, path) == needs


# --- every verb by every role --------------------------------------------------------------------

Body = Callable[[Mapping[str, str]], object]


def examples_of(kind: type[Strict]) -> list[Any]:
    """Return the bodies that the document shows."""
    shown: Any = kind.model_config["json_schema_extra"]
    return list(shown["examples"])


SCALE: Mapping[str, object] = {"count": 1}

BODIES: Mapping[tuple[str, str], Body] = {
    ("POST", f"{OWN}/policies/validate"): lambda _: {"text": POLICY},
    ("PUT", f"{OWN}/policies/{{policy}}"): lambda _: {"text": POLICY},
    ("POST", f"{OWN}/clusters/{{cluster}}/release"): lambda _: {"reason": "x", "for_s": 1},
    ("POST", f"{OWN}/nodes/{{node}}/mark"): lambda _: {"reason": "x"},
    ("POST", f"{OWN}/incidents/{{incident}}/acknowledge"): lambda _: {},
    ("POST", f"{OWN}/outbox/redeliver"): lambda _: {},
    ("POST", f"{OWN}/host-failures"): lambda _: examples_of(ToldFailureBody)[0],
    ("POST", f"{OWN}/hosts/{{host}}/failures"): lambda _: {"proof": "x"},
    ("POST", f"{OWN}/hosts/{{host}}/fence"): lambda _: {"reason": "x"},
    ("POST", f"{OWN}/hosts/{{host}}/unfence"): lambda _: None,
    ("POST", f"{OWN}/alerts/retry"): lambda _: {},
    ("POST", f"{OWN}/alerts/{{alert}}/discard"): lambda _: {"reason": "x"},
    ("POST", f"{HA}/segments"): lambda _: {
        "segment": {**new_name(), "recovery_method": "auto", "service_type": "COMPUTE"}
    },
    ("PUT", f"{HA}/segments/{{segment}}"): lambda _: {"segment": {"description": "x"}},
    ("POST", f"{HA}/segments/{{segment}}/hosts"): lambda _: {
        "host": {**new_name(), "type": "COMPUTE", "control_attributes": "SSH"}
    },
    ("PUT", f"{HA}/segments/{{segment}}/hosts/{{segment_host}}"): lambda _: {
        "host": {"reserved": True}
    },
    ("POST", f"{HA}/notifications"): lambda _: {
        "notification": {
            "type": "PROCESS",
            "hostname": "nobody",
            "generated_time": "2026-11-29T10:00:00",
            "payload": {"event": "STARTED", "process_name": "x"},
        }
    },
    ("POST", f"{OWN}/maintenance"): lambda w: {
        "scope": "node",
        "target": w["node"],
        "reason": "x",
    },
    ("POST", f"{OWN}/stop"): lambda _: {"reason": "x"},
    ("POST", f"{OWN}/import"): lambda _: {"profiles": []},
    ("POST", f"{OWN}/sessions"): lambda _: None,
    ("POST", f"{V1}/profiles"): lambda _: {"profile": {"name": "p", "spec": SPEC}},
    ("POST", f"{V1}/profiles/validate"): lambda _: {"profile": {"spec": SPEC}},
    ("PATCH", f"{V1}/profiles/{{profile}}"): lambda _: {"profile": {"metadata": new_name()}},
    ("POST", f"{V1}/policies"): lambda _: {"policy": {"name": "d", "spec": DELETION}},
    ("POST", f"{V1}/policies/validate"): lambda _: {"policy": {"spec": DELETION}},
    ("PATCH", f"{V1}/policies/{{policy}}"): lambda _: {"policy": new_name()},
    ("POST", f"{V1}/clusters"): lambda w: {"cluster": {"name": "c", "profile_id": w["profile"]}},
    ("PATCH", f"{V1}/clusters/{{cluster}}"): lambda _: {"cluster": new_name()},
    ("POST", f"{V1}/clusters/{{cluster}}/actions"): lambda _: {"scale_out": {"count": 1}},
    ("POST", f"{V1}/clusters/{{cluster}}/ops"): lambda _: {"stop": {}},
    ("POST", f"{V1}/nodes"): lambda w: {"node": {"name": "n", "profile_id": w["profile"]}},
    ("POST", f"{V1}/nodes/adopt"): lambda _: {"identity": "1", "type": KIND},
    ("POST", f"{V1}/nodes/adopt-preview"): lambda _: {"identity": "1", "type": KIND},
    ("PATCH", f"{V1}/nodes/{{node}}"): lambda _: {"node": new_name()},
    ("POST", f"{V1}/nodes/{{node}}/actions"): lambda _: {"check": {}},
    ("POST", f"{V1}/nodes/{{node}}/ops"): lambda _: {"stop": {}},
    ("POST", f"{V1}/receivers"): lambda w: {
        "receiver": {
            "name": "r",
            "type": "webhook",
            "cluster_id": w["cluster"],
            "action": "CLUSTER_SCALE_OUT",
        }
    },
    ("PATCH", f"{V1}/receivers/{{receiver}}"): lambda _: {"receiver": new_name()},
    ("POST", f"{V1}/receivers/{{receiver}}/notify"): lambda _: None,
    ("POST", f"{V1}/webhooks/{{receiver}}/trigger"): lambda _: {},
    ("POST", f"{V1}/actions"): lambda _: {"action": {"name": "a"}},
    ("PATCH", f"{V1}/actions/{{action}}"): lambda _: {"action": {"status": "CANCELLED"}},
}
"""What is sent; every row that changes something has one."""

MORE: Mapping[tuple[str, str], frozenset[Right]] = {
    # What they describe runs as Yaffle's own user.
    ("POST", f"{V1}/profiles"): ADMIN,
    ("POST", f"{V1}/nodes/adopt"): ADMIN,
}
"""What the body needs beyond the route."""
NAMES_ANOTHER = {
    ("POST", f"{OWN}/maintenance"),
    ("POST", f"{V1}/clusters"),
    ("POST", f"{V1}/nodes"),
    ("POST", f"{V1}/receivers"),
}
"""Where the body names an object of project one: for another's member there is none such."""
DENIED_TO_ALL = {
    ("POST", f"{V1}/actions"),
    # Whoever has signed it is let in, and nobody else.
    ("POST", f"{OWN}/host-failures"),
}
FRESH: Mapping[str, Callable[[World, Person, Mapping[str, str]], str]] = {
    "pause": pause_of,
    "receiver": receiver_of,
    # A segment of its own each time, and where a host of one is meant that host, too.
    "segment": lambda world, _who, words: told_anew(world, words)["segment"],
    "segment_host": lambda _world, _who, words: words["segment_host"],
}
"""What is gone after its deletion, and so is made for each request."""


def nothing(_: Mapping[str, str]) -> object:
    """Return no body."""
    return None


def new_name() -> dict[str, str]:
    return {"name": f"n-{uuid.uuid4().hex[:8]}"}


def test_every_row_that_changes_something_is_sent_a_body() -> None:
    changing = {row for row in ROWS if row[0] in {"POST", "PUT", "PATCH"}}
    assert changing == set(BODIES)


def outcome(method: str, path: str, who: Person) -> str:
    """Return what has to happen: allowed, forbidden or missing."""
    needs = TABLE[path][method]
    if (method, path) in DENIED_TO_ALL:
        return "forbidden"
    if not needs <= who.rights:
        return "forbidden"
    inside = who.project == "one" or Right.ADMIN in who.rights or needs == OPEN
    if not inside and re.search(r"{(?!type)", path):
        return "missing"
    if not MORE.get((method, path), OPEN) <= who.rights:
        return "forbidden"
    return "allowed" if inside or (method, path) not in NAMES_ANOTHER else "missing in body"


def judged(answer: httpx.Response) -> str:
    special = {401: "unknown", 403: "forbidden", 404: "missing"}
    # 503: /health and /readyz, for no engine runs here.
    assert answer.status_code < 500 or answer.url.path in {"/health", "/readyz"}, answer.text
    return special.get(answer.status_code, "allowed")


def target(world: World, method: str, path: str) -> str:
    words = dict(world.words)
    if method == "DELETE":
        for kind, make in FRESH.items():
            if f"{{{kind}}}" in path:
                words[kind] = make(world, ROOT, words)
    kind = "senlin.policy.deletion-1.1" if "policy-types" in path else KIND
    ours = path.replace("{type}", kind).replace("{path:path}", "name")
    asked = re.sub(r"{(\w+)}", lambda found: words[found[1]], ours)
    return f"{asked}?V=2" if "webhooks" in path else asked


@pytest.mark.parametrize(("method", "path"), ROWS, ids=lambda word: word)
def test_every_verb_by_every_role(world: World, method: str, path: str) -> None:
    body = BODIES.get((method, path), nothing)
    unknown = world.clients["nobody"].request(
        method, target(world, method, path), json=body(world.words)
    )
    assert (judged(unknown) == "unknown") == (TABLE[path][method] != OPEN), unknown.text
    for who in PEOPLE.values():
        answer = world.ask(who, method, target(world, method, path), body(world.words))
        wanted = outcome(method, path, who)
        told = f"{who.name}: {answer.status_code} {answer.text[:300]}"
        if wanted == "missing in body":
            assert answer.status_code in {400, 403, 404}, told
        else:
            assert judged(answer) == wanted, told
        if wanted == "forbidden" and path.startswith(V1):
            error = answer.json()["error"]
            assert error["message"] == "You are not authorized to complete this operation."


# --- lists ---------------------------------------------------------------------------------------

LISTS = [
    *(
        (f"{OWN}/{plural}", plural)
        for plural in ("policies", "clusters", "nodes", "incidents", "maintenance")
    ),
    (f"{OWN}/actions", "actions"),
    (f"{OWN}/events?limit=1000", "events"),
    *(
        (f"{V1}/{plural}", plural)
        for plural in (
            "profiles",
            "policies",
            "clusters",
            "nodes",
            "receivers",
            "actions",
            "events",
        )
    ),
]


@pytest.mark.parametrize(("path", "key"), LISTS)
def test_a_list_holds_what_is_in_the_project_and_an_admins_everything(
    world: World, path: str, key: str
) -> None:
    def ids(name: str) -> set[str]:
        answer = world.ask(PEOPLE[name], "GET", path)
        assert answer.status_code == 200, answer.text
        return {str(row["id"]) for row in answer.json()[key]}

    one, two, every = ids("overrider"), ids("member-of-two"), ids("admin")
    assert one, path
    assert two, path
    assert not one & two
    assert one | two <= every
    assert ids("admin-of-two") == every


def test_news_of_a_project_is_its_own(world: World) -> None:
    def tell(conn: Any) -> None:
        for project in ("one", "two"):
            subject = Subject(otype="NODE", oid="x", oname=project, project=project)
            append(conn, subject, at_us=1, notify=[("log", project, {})])

    world.live.write(tell)

    def topics(name: str) -> set[str]:
        answer = world.ask(PEOPLE[name], "GET", f"{OWN}/outbox?limit=1000")
        return {m["topic"] for m in answer.json()["messages"]} & {"one", "two"}

    assert topics("reader") == {"one"}
    assert topics("reader-of-two") == {"two"}
    assert topics("admin") == {"one", "two"}


@pytest.mark.parametrize(
    "query", ["/nodes?cluster=", "/events?node=", "/actions?node=", "/incidents?node="]
)
def test_a_filter_is_no_way_into_another_project(world: World, query: str) -> None:
    word = world.words["cluster" if "cluster" in query else "node"]
    assert world.ask(PEOPLE["reader"], "GET", f"{OWN}{query}{word}").status_code == 200
    assert world.ask(PEOPLE["reader-of-two"], "GET", f"{OWN}{query}{word}").status_code == 404
    assert world.ask(PEOPLE["admin-of-two"], "GET", f"{OWN}{query}{word}").status_code == 200


@pytest.mark.parametrize("kind", ["profile", "policy", "cluster", "node"])
@pytest.mark.parametrize("api", [OWN, V1])
def test_names_and_beginnings_of_ids_lead_nowhere_either(world: World, kind: str, api: str) -> None:
    plural = "policies" if kind == "policy" else f"{kind}s"
    for word in (world.words[kind][:13], "in-one" if kind != "node" else "in-one-1"):
        answer = world.ask(PEOPLE["reader-of-two"], "GET", f"{api}/{plural}/{word}")
        assert answer.status_code == 404


# --- what the body decides -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "body", "forbidden"),
    [
        pytest.param("member", {"force_recreate": True}, True, id="no-proof-member"),
        pytest.param("admin", {"force_recreate": True}, True, id="no-proof-admin"),
        pytest.param("fencer", {"force_recreate": True}, True, id="no-proof-fencer"),
        pytest.param("overrider", {"force_recreate": True}, False, id="no-proof-right"),
        pytest.param("member", {"force_recreate": False}, False, id="with-proof"),
        pytest.param("member", {"force_recreate": "true"}, True, id="as-text"),
        pytest.param("admin", {"fence_compute": True}, True, id="fence-admin"),
        pytest.param("overrider", {"fence_compute": True}, True, id="fence-overrider"),
        pytest.param("fencer", {"fence_compute": True}, False, id="fence-right"),
    ],
)
def test_what_a_recovery_may_be_asked_for(
    world: World, who: str, body: dict[str, object], *, forbidden: bool
) -> None:
    node, cluster = world.words["node"], world.words["cluster"]
    for place, asked in (
        (f"{V1}/nodes/{node}/actions", {"recover": {"operation": "RECREATE", **body}}),
        (f"{V1}/nodes/{node}/actions", {"recover": {"operation_params": body}}),
        (f"{V1}/clusters/{cluster}/actions", {"recover": {"operation_params": body}}),
    ):
        answer = world.ask(PEOPLE[who], "POST", place, asked)
        wrong_place = answer.status_code == 400 and "fence_compute" in body
        assert (answer.status_code == 403) == forbidden or wrong_place, f"{place} {answer.text}"


def test_maintenance_of_everything_is_an_administrators(world: World) -> None:
    body = {"scope": "all", "reason": "moving the rack"}
    refused = world.ask(PEOPLE["overrider"], "POST", f"{OWN}/maintenance", body)
    assert refused.status_code == 403
    ident = world.made(PEOPLE["admin"], f"{OWN}/maintenance", body, "maintenance")
    # Everybody sees why nothing heals, and only who may say so ends it.
    shown = world.ask(PEOPLE["reader-of-two"], "GET", f"{OWN}/maintenance").json()["maintenance"]
    assert ident in {pause["id"] for pause in shown}
    path = f"{OWN}/maintenance/{ident}"
    assert world.ask(PEOPLE["overrider"], "DELETE", path).status_code == 403
    assert world.ask(PEOPLE["admin"], "DELETE", path).status_code == 204


def test_maintenance_of_a_host_is_an_administrators_whoever_has_nodes_there(world: World) -> None:
    body = {"scope": "host", "target": "cmp1", "reason": "new memory"}
    assert world.ask(PEOPLE["overrider"], "POST", f"{OWN}/maintenance", body).status_code == 403
    missing = world.ask(PEOPLE["admin"], "POST", f"{OWN}/maintenance", body)
    assert missing.status_code == 404
    assert "no monitor knows of it, and no node is on it" in missing.text


def test_a_stop_is_not_lifted_as_if_it_were_maintenance(world: World) -> None:
    ident = world.made(ROOT, f"{OWN}/stop", {"reason": "x"}, "stop")
    for name in ("member", "overrider", "admin"):
        refused = world.ask(PEOPLE[name], "DELETE", f"{OWN}/maintenance/{ident}")
        assert refused.status_code == 403, name
    assert world.ask(ROOT, "DELETE", f"{OWN}/stop").status_code == 200


def test_a_policy_that_runs_programs_is_an_administrators(world: World) -> None:
    text = POLICY.replace("{name: RECREATE, timeout: 120}", "{type: COMMAND, name: reset}")
    assert text != POLICY
    body = policy_body("runs", text)
    assert world.ask(PEOPLE["member"], "POST", f"{V1}/policies", body).status_code == 403
    assert world.ask(PEOPLE["admin"], "POST", f"{V1}/policies", body).status_code == 201
    mine = world.made(PEOPLE["member"], f"{V1}/policies", policy_body("m"), "policy")
    changed = world.ask(PEOPLE["member"], "PUT", f"{OWN}/policies/{mine}", {"text": text})
    assert changed.status_code == 403


def test_what_is_made_belongs_to_its_makers_project(world: World) -> None:
    mine = world.made(PEOPLE["member"], f"{V1}/policies", policy_body("m"), "policy")
    assert world.ask(PEOPLE["reader"], "GET", f"{OWN}/policies/{mine}").status_code == 200
    assert world.ask(PEOPLE["reader-of-two"], "GET", f"{OWN}/policies/{mine}").status_code == 404


def test_what_a_member_asks_for_is_the_projects(world: World) -> None:
    member, reader = PEOPLE["member"], PEOPLE["reader"]
    body = cluster_body("asked", world.words["profile"], 1)
    cluster = world.made(member, f"{V1}/clusters", body, "cluster")
    node = world.ask(reader, "GET", f"{OWN}/clusters/{cluster}").json()["cluster"]["nodes"][0]["id"]
    world.live.write(built)
    marked = world.ask(member, "POST", f"{OWN}/nodes/{node}/mark", {"reason": "x"})
    assert marked.status_code == 200, marked.text
    answer = world.ask(member, "POST", f"{V1}/nodes/{node}/actions", {"recover": {}})
    asked = answer.json()["action"]
    shown = world.ask(reader, "GET", f"{OWN}/actions?node={node}").json()["actions"]
    assert asked in {action["id"] for action in shown}
    told = world.ask(reader, "GET", f"{OWN}/events?node={node}&limit=1000").json()["events"]
    assert {"NODE_MARK_UNHEALTHY", "NODE_RECOVER"} <= {event["action"] for event in told}
    assert {event["user"] for event in told} == {"member"}


@pytest.mark.parametrize("table", [actions, clusters, events, nodes, policies, profiles])
def test_nothing_is_written_outside_the_projects_of_those_who_asked(
    world: World, table: Table
) -> None:
    rows = world.live.write(lambda conn: conn.execute(select(table)).mappings().all())
    assert rows
    assert [dict(row) for row in rows if row["project"] not in {"one", "two"}] == []


# --- an id of another project is an id of nothing ------------------------------------------------


def test_every_row_that_changes_something_has_a_case_for_foreign_ids() -> None:
    assert foreign.without_a_case() == set(), "routes without a case in foreign.py"


def test_another_projects_ids_are_answered_exactly_as_unknown_ones(world: World) -> None:
    who = PEOPLE["member-of-two"]

    def ask(method: str, path: str, body: object) -> httpx.Response:
        return world.ask(who, method, path, body)

    theirs = {**world.words, "thing": "00000000-1111-4111-8111-000000000000"}
    assert foreign.told_apart(ask, theirs, {**world.others, "type": KIND}) == []
