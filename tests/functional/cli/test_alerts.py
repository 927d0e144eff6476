"""Failed hosts at a real server: a controller that is away, a server that is killed, and nothing lost."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.contract.notifiers.receiver import receiver, say
from tests.functional.cli.support import Server, run, wait_for
from tests.servers.process import free_port

SETTINGS = """
[hosts]
on_shared_storage = false

[hosts.exceptions]
"compute1.example.org" = true

[hosts.names]
compute1 = "compute1.example.org"

[alerts.recovery]
type = "http_json"
url = "http://127.0.0.1:{port}/failures"
"""


TRUE = "[hosts]\non_shared_storage = true\n"
ONE = '[alerts.a]\ntype = "http_json"\nurl = "http://h/"\n'


def serving(tmp_path: Path, port: int) -> Server:
    config = tmp_path / "yaffle.toml"
    config.write_text(SETTINGS.format(port=port))
    return Server(tmp_path / "state", flags=("--config", str(config)))


def test_an_alert_outlives_the_server_that_wrote_it_and_is_accepted_by_whoever_is_there(
    tmp_path: Path,
) -> None:
    server = serving(tmp_path, free_port())
    server.start()
    proof = ("--proof", "power cut at the PDU")
    told = server.ok("host", "mark", "compute1", *proof, "--at", "2026-11-20T03:15:00Z")
    assert told.out == "host compute1 is marked; 1 endpoint will be told; see: yaffle alert list\n"

    def tried() -> bool:
        (row,) = server.ok("alert", "list", "--json").json["alerts"]
        return bool(row["attempts"] > 0)

    wait_for(tried)
    listed = server.ok("alert", "list").out
    assert "compute1.example.org" in listed
    assert "pending" in listed
    (row,) = server.ok("alert", "list", "--json").json["alerts"]
    shown = server.ok("alert", "show", str(row["seq"])).out
    assert "power cut at the PDU" in shown
    server.stop(signal.SIGKILL)
    with receiver(say(202)) as there:
        after = serving(tmp_path, there.port)
        after.start()
        after.ok("alert", "retry")
        wait_for(lambda: after.ok("alert", "list", "--json", "--state", "accepted").json["alerts"])
        body = json.loads(there.seen[0].body)
        assert body["id"] == row["failure"]["id"]
        assert body["generated_time"] == row["failure"]["generated_us"] // 1_000_000
        assert body["payload"] == {
            "hostname": "compute1.example.org",
            "on_shared_storage": True,
            "failure_time": 1_795_144_500,
        }
        (row,) = after.ok("alert", "list", "--json").json["alerts"]
        assert (row["state"], row["failure"]["cleared_by"]) == ("accepted", "recovery")
        assert {json.dumps(json.loads(s.body)) for s in there.seen} == {json.dumps(body)}
        assert after.stop() == 0


def test_one_that_is_refused_is_told_by_the_doctor_and_given_up_by_a_person(tmp_path: Path) -> None:
    with receiver(say(400)) as there:
        server = serving(tmp_path, there.port)
        server.start()
        server.ok("host", "mark", "compute2", "--proof", "it lies in front of me")
        wait_for(lambda: "refused" in server.ok("alert", "list").out)
        checks = {c["name"]: c for c in server.cli("doctor", "--json").json["checks"]}
        assert checks["alerts"]["status"] == "warn"
        assert "1 refused" in checks["alerts"]["detail"]
        missing = server.cli("alert", "discard", "1")
        assert (missing.code, "--reason" in missing.err) == (2, True)
        server.ok("alert", "discard", "1", "--reason", "replaced by hand")
        shown = server.ok("alert", "show", "1").out
        assert "replaced by hand" in shown
        again = server.cli("alert", "discard", "1", "--reason", "again")
        assert (again.code, "discarded" in again.err) == (4, True)
        assert server.cli("alert", "show", "99").code == 3
        names = {c["name"] for c in server.cli("doctor", "--json").json["checks"]}
        assert "alerts" not in names, "nothing waits any more"
        assert server.stop() == 0


def test_where_nobody_is_told_a_mark_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    server = Server(tmp_path / "state", flags=())
    server.start()
    done = server.cli("host", "mark", "compute1", "--proof", "x")
    assert (done.code, "[alerts.NAME]" in done.err) == (4, True)
    assert server.ok("alert", "list").out == "no alerts\n"
    for wrong in ("yesterday", "2026-11-29T03:15:00"):
        assert server.cli("host", "mark", "c", "--proof", "x", "--at", wrong).code == 2
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (ONE, "hosts.on_shared_storage is missing"),
        (
            f'{TRUE}{ONE}[alerts.b]\ntype = "http_json"\nurl = "http://h/"',
            "alerts: 0 of 2 endpoints are responsible",
        ),
        (f'{TRUE}{ONE}responsible = "yes"', "alerts.a.responsible must be true or false"),
        (f'{TRUE}[alerts.a]\ntype = "htpp_json"', "http_json"),
        (f'{TRUE}[alerts.a]\ntype = "http_json"', "alerts.a.url"),
    ],
)
def test_settings_with_which_a_host_might_be_lost_are_refused(
    tmp_path: Path, text: str, named: str
) -> None:
    config = tmp_path / "yaffle.toml"
    config.write_text(text)
    done = run("serve", "--config", str(config), "--state-dir", str(tmp_path / "state"))
    assert done.code == 2
    assert named in done.err
