"""Receivers and webhooks: a URL starts one action of one cluster, nothing else, and not without end."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from sqlalchemy import Connection, update
from structlog.testing import capture_logs
from tests.functional.api.live import Live, running, settings_for
from tests.functional.clustering.senlin import SLEEPER, Senlin

from yaffle.engine.commands.context import named
from yaffle.engine.commands.receivers import acting
from yaffle.errors import ConfigError, InvalidSpec
from yaffle.model.authz import LOCAL, Right
from yaffle.store import receivers, tables
from yaffle.store.rows import ReceiverRow
from yaffle.wiring import receiver_terms

Create = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def cluster(senlin: Senlin) -> str:
    """An empty cluster; without an engine its actions stay where they are."""
    return empty_cluster(senlin, "web")


def empty_cluster(senlin: Senlin, name: str) -> str:
    live = senlin.live
    if not live.clustering("GET", "/profiles", want=200)["profiles"]:
        live.profile("p", SLEEPER["properties"])
    # Without an engine nothing that was deleted goes, so that a name serves once.
    return str(live.cluster(f"{name}-{uuid4().hex[:8]}", "p", 0)["id"])


@pytest.fixture
def create(senlin: Senlin, cluster: str) -> Create:
    def made(**more: Any) -> dict[str, Any]:
        body = {"name": "rw", "type": "webhook", "cluster_id": cluster}
        body |= {"action": "CLUSTER_CHECK", **more}
        found = senlin.call("POST", "/receivers", {"receiver": body}, want=201)["receiver"]
        assert isinstance(found, dict)
        return found

    return made


def test_a_receiver_looks_as_senlin_s(senlin: Senlin, create: Create, cluster: str) -> None:
    made = create(action="CLUSTER_SCALE_OUT", params={"count": 1})
    assert made == {
        "id": made["id"],
        "name": "rw",
        "type": "webhook",
        "action": "CLUSTER_SCALE_OUT",
        "actor": {},
        "channel": made["channel"],
        "cluster_id": cluster,
        "created_at": made["created_at"],
        "updated_at": None,
        "domain": None,
        "params": {"count": 1},
        "project": "default",
        "user": made["user"],
    }
    root = f"http://{senlin.live.address}"
    url = f"{root}/v1/webhooks/{made['id']}/trigger?V=2&count=1"
    assert made["channel"] == {"alarm_url": url}
    for word in (made["id"], made["id"][:8]):
        assert senlin.call("GET", f"/receivers/{word}")["receiver"] == made


def test_a_receiver_is_renamed_and_its_url_stays(senlin: Senlin, create: Create) -> None:
    made = create()
    path = f"/receivers/{made['id']}"
    changed = senlin.call("PATCH", path, {"receiver": {"name": "rw2"}})["receiver"]
    assert changed == made | {"name": "rw2", "updated_at": changed["updated_at"]}
    refused = senlin.refused("PATCH", path, {"receiver": {"name": "rw2"}})
    assert refused == ("BadRequest", "No property needs an update.")
    more = {"action": "CLUSTER_SCALE_IN", "params": {"count": 2}}
    url = senlin.call("PATCH", path, {"receiver": more})["receiver"]["channel"]["alarm_url"]
    assert url == f"http://{senlin.live.address}/v1/webhooks/{made['id']}/trigger?V=2&count=2"


def test_a_change_is_judged_like_a_new_one(senlin: Senlin, create: Create) -> None:
    made = create(action="CLUSTER_SCALE_OUT", params={"count": 1})
    wrong: list[dict[str, object]] = [
        {"action": "CLUSTER_CREATE"},
        {"action": "CLUSTER_CHECK"},
        {"params": {"count": 0}},
    ]
    for change in wrong:
        senlin.refused("PATCH", f"/receivers/{made['id']}", {"receiver": change})
    assert senlin.call("GET", f"/receivers/{made['id']}")["receiver"] == made


def test_lists_are_filtered_sorted_and_paged(senlin: Senlin, create: Create) -> None:
    names = [f"list-{n}" for n in range(3)]
    made = {name: create(name=name, action="CLUSTER_DELETE")["id"] for name in names}
    only = "/receivers?action=CLUSTER_DELETE"

    def listed(query: str) -> list[str]:
        return [r["name"] for r in senlin.call("GET", only + query)["receivers"]]

    assert listed("") == names
    assert listed("&sort=name:desc") == names[::-1]
    assert listed(f"&limit=1&marker={made['list-0']}") == ["list-1"]
    assert listed("&name=list-1&name=list-2") == ["list-1", "list-2"]
    assert listed("&user=nobody") == []
    _, message = senlin.refused("GET", "/receivers?sort=channel")
    assert message == "Unsupported sort key 'channel' for 'sort'."


def test_a_deleted_receiver_opens_nothing(senlin: Senlin, create: Create) -> None:
    made = create()
    senlin.call("DELETE", f"/receivers/{made['id']}", want=204)
    assert senlin.refused("GET", f"/receivers/{made['id']}", want=404) == (
        "ResourceNotFound",
        f"The receiver '{made['id']}' could not be found.",
    )
    senlin.refused("POST", f"/webhooks/{made['id']}/trigger?V=2", want=404)


def test_notify_is_for_messages(senlin: Senlin, create: Create) -> None:
    assert senlin.refused("POST", f"/receivers/{create()['id']}/notify") == (
        "BadRequest",
        "Notifying non-message receiver is not allowed.",
    )
    senlin.refused("POST", "/receivers/none/notify", want=404)


REFUSED: list[Any] = [
    pytest.param(
        {"cluster_id": None},
        "Cluster identity is required for creating webhook receiver.",
        id="no-cluster",
    ),
    pytest.param(
        {"action": None}, "Action name is required for creating webhook receiver.", id="no-action"
    ),
    pytest.param(
        {"cluster_id": "nope"}, "The specified cluster 'nope' could not be found.", id="unknown"
    ),
    pytest.param({"type": "message"}, "'message' are not supported", id="message"),
    pytest.param({"type": "pigeon"}, "Unsupported receiver type 'pigeon'.", id="type"),
    pytest.param({"action": "CLUSTER_CREATE"}, "Illegal action 'CLUSTER_CREATE'", id="create"),
    pytest.param({"action": "NODE_CHECK"}, "Illegal action 'NODE_CHECK'", id="node-action"),
    pytest.param({"params": {"count": 1}}, "CLUSTER_CHECK takes no such parameter", id="params"),
    pytest.param({"name": "a b"}, "a b", id="name"),
    pytest.param({"colour": "red"}, "Additional properties are not allowed", id="key"),
]


@pytest.mark.parametrize(("wrong", "why"), REFUSED)
def test_what_could_only_fail_is_refused(
    senlin: Senlin, cluster: str, wrong: dict[str, object], why: str
) -> None:
    good = {"name": "rw", "type": "webhook", "cluster_id": cluster, "action": "CLUSTER_CHECK"}
    body = {"receiver": {k: v for k, v in (good | wrong).items() if v is not None}}
    assert why in senlin.refused("POST", "/receivers", body)[1]


# --- webhooks ---------------------------------------------------------------------------------------


def post(senlin: Senlin, url: str, body: object = None) -> Any:
    """Ask as an alarm system does: with the URL and nothing else."""
    with senlin.live.client() as client:
        client.headers.pop("Authorization", None)
        return client.post(url, json=body) if body is not None else client.post(url)


def inputs_of(senlin: Senlin, answer: Any) -> Any:
    """Return the inputs of the action that a webhook has started."""
    assert answer.status_code == 202, answer.text
    action = answer.json()["action"]
    assert answer.headers["Location"] == f"http://{senlin.live.address}/v1/actions/{action}"
    found = senlin.live.call("GET", "/actions?limit=1000")["actions"]
    (row,) = (row for row in found if row["id"] == action)
    return row


def test_the_url_is_all_that_is_needed(senlin: Senlin, create: Create) -> None:
    cluster = empty_cluster(senlin, "hooked")
    made = create(cluster_id=cluster)
    row = inputs_of(senlin, post(senlin, made["channel"]["alarm_url"]))
    assert (row["action"], row["cluster_id"]) == ("CLUSTER_CHECK", cluster)


BODIES: list[Any] = [
    pytest.param(1, {"params": {"count": 5}}, 5, id="v1-wrapped"),
    pytest.param(1, {"count": 5}, None, id="v1-bare-is-no-input"),
    pytest.param(2, {"count": 5}, 5, id="v2-bare"),
    pytest.param(9, {"count": 5}, 5, id="v9"),
    pytest.param(2, {"alarm_id": "x", "current": "alarm"}, None, id="an-alarm-s-report"),
    pytest.param(2, None, None, id="nothing"),
]


def started_with(senlin: Senlin, url: str, body: object) -> Any:
    """Return the inputs with which a call of the URL has started an action."""
    answer = post(senlin, url, body)
    assert answer.status_code == 202, answer.text
    with senlin.live.service.store.engine.connect() as conn:
        query = "select inputs from actions where id = ?"
        found = conn.exec_driver_sql(query, (answer.json()["action"],))
        return json.loads(found.scalar_one())


@pytest.mark.parametrize(("version", "body", "wanted"), BODIES)
@pytest.mark.parametrize("pinned", [None, 2])
def test_a_caller_says_how_many_where_the_receiver_does_not(
    senlin: Senlin, create: Create, version: int, body: object, wanted: object, pinned: int | None
) -> None:
    cluster = empty_cluster(senlin, "sized")
    params = {} if pinned is None else {"count": pinned}
    made = create(cluster_id=cluster, action="CLUSTER_SCALE_OUT", params=params)
    url = f"/v1/webhooks/{made['id']}/trigger?V={version}&count=7"
    count = wanted if pinned is None else pinned
    found = started_with(senlin, url, body)
    assert {k: v for k, v in found.items() if k == "count"} == (
        {} if count is None else {"count": count}
    )
    senlin.live.drop("cluster", cluster)


def test_what_is_pinned_stays_and_nothing_is_added(senlin: Senlin, create: Create) -> None:
    cluster = empty_cluster(senlin, "pinned")
    made = create(cluster_id=cluster, action="CLUSTER_UPDATE", params={"name": "as-it-was-meant"})
    url = made["channel"]["alarm_url"]
    started_with(senlin, url, {"name": "mine-now"})
    assert senlin.live.call("GET", f"/clusters/{cluster}")["cluster"]["name"] == "as-it-was-meant"
    for more in ({"timeout": 1}, {"profile_id": "x"}, {"metadata": {"a": "b"}}):
        answer = post(senlin, url, more)
        assert answer.status_code == 400, answer.text
        assert f"params.{next(iter(more))}: the caller of a webhook" in answer.text
    senlin.live.drop("cluster", cluster)


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "text/plain", "application/cloudevents+json", ""]
)
def test_callers_need_not_say_what_they_send(senlin: Senlin, create: Create, kind: str) -> None:
    made = create()
    headers = {"Content-Type": kind} if kind else {}
    url = made["channel"]["alarm_url"]
    with senlin.live.client(headers) as client:
        wrong = client.post(url, content=b'{"delete_check_action": "maybe"}')
        ignored = client.post(url, content=b"alarm=high")
    assert (wrong.status_code, ignored.status_code) == (400, 202)


@pytest.mark.parametrize(
    "query", ["", "?V=", "?V=x", "?V=0", "?v=2", "?V=-1", "?V=2.0", "?count=1"]
)
def test_without_a_version_there_is_a_page(senlin: Senlin, create: Create, query: str) -> None:
    answer = post(senlin, f"/v1/webhooks/{create()['id']}/trigger{query}")
    assert answer.status_code == 400
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "V query parameter is required in webhook trigger URL" in answer.text


def test_wrong_inputs_are_told(senlin: Senlin, create: Create) -> None:
    made = create(action="CLUSTER_SCALE_OUT")
    answer = post(senlin, made["channel"]["alarm_url"], {"count": "many"})
    assert answer.status_code == 400
    assert "params.count: 'many' is not a whole number" in answer.json()["error"]["message"]


def test_an_id_s_beginning_or_a_name_opens_nothing(senlin: Senlin, create: Create) -> None:
    made = create(name="open-sesame")
    for word in (made["id"][:8], made["id"].upper(), "open-sesame"):
        assert post(senlin, f"/v1/webhooks/{word}/trigger?V=2").status_code == 404


def test_nothing_told_names_the_url(senlin: Senlin, create: Create) -> None:
    made = create()
    with capture_logs() as lines:
        post(senlin, made["channel"]["alarm_url"])
        senlin.call("PATCH", f"/receivers/{made['id']}", {"receiver": {"name": "quiet"}})
        senlin.call("DELETE", f"/receivers/{made['id']}", want=204)
    events = senlin.live.call("GET", "/events?limit=1000")
    told = str([*lines, events])
    mine = [e["action"] for e in events["events"] if e["object"]["id"] == f"{made['id'][:8]}…"]
    assert sorted(mine) == [f"RECEIVER_{w}" for w in ("CREATE", "DELETE", "TRIGGER", "UPDATE")]
    assert made["id"][:8] in told
    assert made["id"] not in told


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Senlin]:
    """A server whose webhooks have two tokens, and a public name."""
    limits = {"burst": 2, "per_minute": 0.5, "public_url": "https://yaffle.example.org/"}
    with running(tmp_path / "yaffle", receivers=limits) as live:
        yield Senlin(live=live)


def test_each_webhook_has_a_bucket(strict: Senlin) -> None:
    cluster = empty_cluster(strict, "web")
    body = {"type": "webhook", "cluster_id": cluster, "action": "CLUSTER_CHECK"}
    first, second = (
        strict.call("POST", "/receivers", {"receiver": {"name": n, **body}}, want=201)["receiver"]
        for n in ("one", "two")
    )
    assert first["channel"]["alarm_url"].startswith("https://yaffle.example.org/v1/webhooks/")
    path = urlsplit(first["channel"]["alarm_url"]).path + "?V=2"
    # Refused by the cluster or not: an attempt is an attempt.
    assert [
        post(strict, path, {"delete_check_action": n}).status_code for n in ("x", "y", "z")
    ] == [
        400,
        400,
        429,
    ]
    answer = post(strict, path)
    assert answer.status_code == 429
    assert 100 < int(answer.headers["Retry-After"]) <= 120
    assert answer.json()["error"]["type"] == "RequestLimitExceeded"
    assert post(strict, f"/v1/webhooks/{second['id']}/trigger?V=2").status_code == 202


def test_the_bucket_survives_a_restart(tmp_path: Path) -> None:
    limits = {"burst": 1, "per_minute": 0.5}
    with running(tmp_path / "yaffle", receivers=limits) as live:
        senlin = Senlin(live=live)
        cluster = empty_cluster(senlin, "web")
        body = {"name": "r", "type": "webhook", "cluster_id": cluster, "action": "CLUSTER_CHECK"}
        ident = senlin.call("POST", "/receivers", {"receiver": body}, want=201)["receiver"]["id"]
        assert post(senlin, f"/v1/webhooks/{ident}/trigger?V=2").status_code == 202
    with running(tmp_path / "yaffle", receivers=limits) as live:
        assert post(Senlin(live=live), f"/v1/webhooks/{ident}/trigger?V=2").status_code == 429


def test_guesses_run_dry_and_webhooks_in_use_do_not(strict: Senlin) -> None:
    cluster = empty_cluster(strict, "web")
    body = {"name": "r", "type": "webhook", "cluster_id": cluster, "action": "CLUSTER_CHECK"}
    ident = strict.call("POST", "/receivers", {"receiver": body}, want=201)["receiver"]["id"]
    guesses = [f"/v1/webhooks/{uuid.uuid4()}/trigger?V=2" for _ in range(3)]
    assert [post(strict, url).status_code for url in guesses] == [404, 404, 429]
    assert post(strict, f"/v1/webhooks/{ident}/trigger?V=2").status_code == 202


def test_a_webhook_that_no_process_has_seen_work_is_no_guess(tmp_path: Path) -> None:
    limits = {"burst": 2, "per_minute": 0.5}
    with running(tmp_path / "yaffle", receivers=limits) as live:
        senlin = Senlin(live=live)
        cluster = empty_cluster(senlin, "web")
        body = {"name": "r", "type": "webhook", "cluster_id": cluster, "action": "CLUSTER_CHECK"}
        ident = senlin.call("POST", "/receivers", {"receiver": body}, want=201)["receiver"]["id"]
    with running(tmp_path / "yaffle", receivers=limits) as live:
        senlin = Senlin(live=live)
        guesses = [f"/v1/webhooks/{uuid.uuid4()}/trigger?V=2" for _ in range(5)]
        assert [post(senlin, url).status_code for url in guesses] == [404, 404, 429, 429, 429]
        assert post(senlin, f"/v1/webhooks/{ident}/trigger?V=2").status_code == 202


def test_what_the_database_holds_of_an_id_opens_nothing(senlin: Senlin, create: Create) -> None:
    made = create()
    ident = made["id"]
    stored = receivers.stored_id(ident)
    with senlin.live.service.store.engine.connect() as conn:
        query = "select * from receivers where id = ?"
        (row,) = conn.exec_driver_sql(query, (stored,)).mappings().all()
    assert ident not in str(dict(row))
    for word in (stored, row["hidden"]):
        assert post(senlin, f"/v1/webhooks/{word}/trigger?V=2").status_code == 404
    # As long a beginning as anybody may give, and the id itself, name it; another end does not.
    for word in (ident[:4], ident[:13], ident):
        assert senlin.call("GET", f"/receivers/{word}")["receiver"] == made
    senlin.refused("GET", f"/receivers/{ident[:30]}000000", want=404)


OLD = "7546f2d1-8df2-4d0a-b910-a001c959caec"


def test_what_was_stored_in_the_open_is_hidden_and_its_url_goes_on(tmp_path: Path) -> None:
    limits = {"burst": 1, "per_minute": 0.5}
    with running(tmp_path / "yaffle", receivers=limits) as live:
        senlin = Senlin(live=live)
        body = {"name": "r", "type": "webhook", "action": "CLUSTER_CHECK"}
        body["cluster_id"] = empty_cluster(senlin, "web")
        made = senlin.call("POST", "/receivers", {"receiver": body}, want=201)["receiver"]
        url = f"http://{live.address}/v1/webhooks/{OLD}/trigger?V=2"

        def as_before(conn: Connection) -> None:
            old = {"id": OLD, "hidden": None, "channel": {"alarm_url": url}}
            conn.execute(update(tables.receivers).values(**old))

        live.write(as_before)
        # An older program beside us may still store them so; they are called and shown all the same.
        found = senlin.call("GET", f"/receivers/{OLD}")["receiver"]
        assert found == made | {"id": OLD, "channel": {"alarm_url": url}}
        assert post(senlin, url).status_code == 202
    with running(tmp_path / "yaffle", receivers=limits) as live:
        senlin = Senlin(live=live)
        assert senlin.call("GET", f"/receivers/{OLD}")["receiver"] == found
        # Its bucket goes with it.
        assert post(senlin, urlsplit(url).path + "?V=2").status_code == 429
    for path in (tmp_path / "yaffle").glob("yaffle.db*"):
        assert OLD.encode() not in path.read_bytes()


def test_without_the_key_a_webhook_works_and_its_url_is_not_shown(tmp_path: Path) -> None:
    with running(tmp_path / "yaffle") as live:
        senlin = Senlin(live=live)
        body = {"name": "r", "type": "webhook", "action": "CLUSTER_CHECK"}
        body["cluster_id"] = empty_cluster(senlin, "web")
        ident = senlin.call("POST", "/receivers", {"receiver": body}, want=201)["receiver"]["id"]
    (tmp_path / "yaffle" / "receivers.key").unlink()
    with running(tmp_path / "yaffle") as live:
        senlin = Senlin(live=live)
        assert post(senlin, f"/v1/webhooks/{ident}/trigger?V=2").status_code == 202
        (found,) = senlin.call("GET", "/receivers")["receivers"]
        assert (found["id"], found["channel"]) == (receivers.stored_id(ident), {})
        assert senlin.call("GET", f"/receivers/{ident}")["receiver"] == found
        assert "1 whose URL cannot be shown here: r" in doctored(senlin)
        senlin.call("DELETE", f"/receivers/{found['id']}", want=204)
        assert post(senlin, f"/v1/webhooks/{ident}/trigger?V=2").status_code == 404


def doctored(senlin: Senlin) -> str:
    checks = senlin.live.call("GET", "/doctor")["checks"]
    (found,) = (check for check in checks if check["name"] == "receivers")
    return f"{found['status']} {found['detail']} {found.get('advice')}"


@pytest.mark.parametrize("text", [None, "not-a-key\n", "QUJD\n"])
def test_a_file_of_keys_that_cannot_be_used_stops_the_start(
    tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "keys"
    if text is not None:
        file.write_text(text)
        file.chmod(0o600)
    settings = settings_for(tmp_path / "yaffle", receivers={"keys_file": file})
    with pytest.raises(ConfigError, match=r"receivers\.keys_file"):
        receiver_terms(settings)


def test_a_webhook_ends_when_it_says(senlin: Senlin, create: Create) -> None:
    made = create(name="brief", expires_at="2199-01-31T12:00:00+02:00")
    path = f"/receivers/{made['id']}"
    assert made["expires_at"] == "2199-01-31T10:00:00Z"
    changed = senlin.call("PATCH", path, {"receiver": {"expires_at": None}})["receiver"]
    assert "expires_at" not in changed
    for wrong in ("2020-01-31T12:00:00Z", "tomorrow"):
        senlin.refused("PATCH", path, {"receiver": {"expires_at": wrong}})
    senlin.call("PATCH", path, {"receiver": {"expires_at": "2198-01-31T10:00:00Z"}})
    assert post(senlin, made["channel"]["alarm_url"]).status_code == 202
    over(senlin.live, made["id"], expires_us=1_000_000)
    assert post(senlin, made["channel"]["alarm_url"]).status_code == 404
    assert senlin.call("GET", path)["receiver"]["expires_at"] == "1970-01-01T00:00:01Z"
    assert "1 that ended: brief" in doctored(senlin)
    senlin.call("PATCH", path, {"receiver": {"expires_at": "2198-01-31T10:00:00Z"}})
    assert post(senlin, made["channel"]["alarm_url"]).status_code != 404
    senlin.call("DELETE", path, want=204)


def over(live: Live, ident: str, **values: object) -> None:
    mine = tables.receivers.c.id == receivers.stored_id(ident)
    live.write(lambda conn: conn.execute(update(tables.receivers).where(mine).values(**values)))


def test_no_webhook_is_older_than_is_allowed_and_its_end_is_told(tmp_path: Path) -> None:
    with running(tmp_path / "yaffle", engine=True, receivers={"max_age": 30}) as live:
        senlin = Senlin(live=live)
        body = {"name": "r", "type": "webhook", "action": "CLUSTER_CHECK"}
        body["cluster_id"] = empty_cluster(senlin, "web")
        made = senlin.call("POST", "/receivers", {"receiver": body}, want=201)["receiver"]
        assert made["expires_at"] > made["created_at"]
        day_us = 86_400_000_000
        now_us = live.service.ctx.clock.now_us()
        over(live, made["id"], created_us=now_us - 31 * day_us, expires_us=now_us + day_us)
        assert post(senlin, made["channel"]["alarm_url"]).status_code == 404

        def told(page: Any) -> list[Any]:
            return [e for e in page["events"] if e["action"] == "RECEIVER_EXPIRE"]

        (event,) = told(live.until("/events?limit=1000", told))
        assert event["object"]["id"] == f"{made['id'][:8]}…"
        assert event["object"]["name"] == "r"


def test_a_cluster_takes_its_receivers_with_it(senlin: Senlin, create: Create) -> None:
    cluster = empty_cluster(senlin, "short-lived")
    made = create(cluster_id=cluster)
    senlin.live.drop("cluster", cluster)
    senlin.refused("GET", f"/receivers/{made['id']}", want=404)


def test_it_acts_as_a_member_of_its_project_and_never_as_more() -> None:
    row = ReceiverRow(
        id="i", name="n", type="webhook", cluster_id="c", action="CLUSTER_CHECK", actor={},
        params={}, channel={}, project="p", user="root", domain="d", created_us=1, updated_us=None,
    )  # fmt: skip
    who = acting(row)
    assert (who.user, who.project, who.rights) == ("root", "p", {Right.READ, Right.WRITE})
    assert LOCAL.rights > who.rights
    assert receivers.masked("7546f2d1-8df2-4d0a-b910-a001c959caec") == "7546f2d1…"


TOKENS = """\
mara:mara-0123456789abcdef project=red roles=member
otto:otto-0123456789abcdef project=blue roles=member
lena:lena-0123456789abcdef project=red roles=reader
root:root-0123456789abcdef project=ops roles=admin
boss:boss-0123456789abcdef project=red roles=admin
"""


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Senlin]]:
    """One server with credentials, as each of its people sees it."""
    folder = tmp_path_factory.mktemp("people")
    tokens = folder / "tokens"
    tokens.write_text(TOKENS)
    tokens.chmod(0o600)
    with running(folder / "yaffle", server={"token_file": tokens}) as live:
        yield {
            name: Senlin(live=replace(live, headers={"Authorization": f"Bearer {token}"}))
            for name, token in (line.split()[0].split(":") for line in TOKENS.splitlines())
        }


def test_receivers_stay_in_their_project(people: dict[str, Senlin]) -> None:
    mara, otto, lena, root = (people[name] for name in ("mara", "otto", "lena", "root"))
    cluster = empty_cluster(people["boss"], "red-web")
    body = {"name": "r", "type": "webhook", "cluster_id": cluster, "action": "CLUSTER_CHECK"}
    unknown = {**body, "cluster_id": "0" * 8 + cluster[8:]}
    told = [otto.refused("POST", "/receivers", {"receiver": b}, want=400) for b in (body, unknown)]
    # That there is such a cluster is told to nobody else.
    assert told[0] == tuple(word.replace(unknown["cluster_id"], cluster) for word in told[1])
    otto.refused("POST", "/receivers", {"receiver": {**body, "cluster_id": "red-web"}}, want=400)
    lena.refused("POST", "/receivers", {"receiver": body}, want=403)
    made = root.call("POST", "/receivers", {"receiver": body}, want=201)["receiver"]
    assert (made["project"], made["user"]) == ("red", "root")
    path = f"/receivers/{made['id']}"
    assert mara.call("GET", path)["receiver"] == made
    otto.refused("GET", path, want=404)
    otto.refused("PATCH", path, {"receiver": {"name": "mine"}}, want=404)
    otto.refused("DELETE", path, want=404)
    assert otto.call("GET", "/receivers")["receivers"] == []
    # Whoever could read the URL could use it.
    lena.refused("GET", path, want=403)
    lena.refused("GET", "/receivers", want=403)
    started = post(otto, made["channel"]["alarm_url"])
    assert started.status_code == 202
    action = mara.live.call("GET", "/actions?limit=1")["actions"][0]
    assert action["id"] == started.json()["action"]


@pytest.mark.parametrize("name", ["-n", "--force"])
def test_no_name_is_an_option_of_a_command(senlin: Senlin, cluster: str, name: str) -> None:
    profile = senlin.call("GET", "/profiles", want=200)["profiles"][0]["id"]
    bodies = {
        "/nodes": {"node": {"name": name, "profile_id": profile}},
        "/clusters": {"cluster": {"name": name, "profile_id": profile}},
        "/receivers": {
            "receiver": {
                "name": name, "type": "webhook", "cluster_id": cluster, "action": "CLUSTER_CHECK",
            }
        },
    }  # fmt: skip
    for path, body in bodies.items():
        senlin.refused("POST", path, body)
    senlin.refused("PATCH", f"/clusters/{cluster}", {"cluster": {"name": name}})
    config = {"node.name.format": f"{name}-$I"}
    senlin.refused("PATCH", f"/clusters/{cluster}", {"cluster": {"config": config}})
    # Whoever comes by another way than this API meets what makes objects.
    with pytest.raises(InvalidSpec, match="no dash in front"):
        named(name)
