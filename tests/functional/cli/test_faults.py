"""One start, and one look of the doctor's, tell all that is wrong with a file, and where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.functional.cli.support import run

DRIVERS = """\
[notifiers.ops]
type = "webhook"
url = "https://ops.example.org/"
secrt_file = "/etc/yaffle/secret"
secret = "not so short as all that"
timeout = "soon"

[notifiers.chat]
type = "webhok"

[drivers.HOST.devices.rack1]
agent = "/bin/true"
hosts = ["cmp1"]
even_if_up = true
timeout = -1

[drivers."os.nova.server-1.0"]
cloud = 7

[drivers.LB_STATUS_POLLING.balancers."edge.1"]
type = "haproxy"

[drivers.COMAND]
enabled = true
"""
WRONG = [
    "4: notifiers.ops.secrt_file: there is no such setting; did you mean secret_file?",
    "6: notifiers.ops.timeout must be a number",
    "9: notifiers.chat.type = 'webhok': there is no such notifier; did you mean webhook?",
    "14: drivers.HOST.devices.rack1.even_if_up: there is no such setting; did you mean even_while_up?",
    "15: drivers.HOST.devices.rack1.timeout is -1; it must be between 0.5 and 300",
    '18: drivers."os.nova.server-1.0".cloud must be a non-empty text',
    '20: drivers.LB_STATUS_POLLING.balancers."edge.1".socket or url is needed',
    "23: drivers.COMAND: no such driver is installed; did you mean COMMAND?",
]
OWN = '[engine]\nlease = "long"\n[servr]\nlisten = "x"\n'
OWN_WRONG = [
    "26: engine.lease: Input should be a valid number, unable to parse string as a number (it is 'long')",
    "27: servr: there is no such setting; did you mean server?",
]


@pytest.mark.parametrize("role", ["serve", "engine", "api"])
@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        pytest.param(DRIVERS, WRONG, id="of drivers"),
        pytest.param(DRIVERS + OWN, OWN_WRONG + WRONG, id="of both"),
    ],
)
def test_all_that_is_wrong_is_told_at_once_and_nothing_is_made(
    text: str, wrong: list[str], role: str, tmp_path: Path
) -> None:
    config, state = tmp_path / "yaffle.toml", tmp_path / "state"
    config.write_text(text)
    config.chmod(0o600)
    flags = ("--config", str(config), "--state-dir", str(state))
    shared = () if role == "serve" else ("--database", "postgresql://y@127.0.0.1:1/y")
    done = run(role, *flags, *shared)
    said = [line.removeprefix("yaffle: ") for line in done.err.splitlines()]
    expected = [f"{config}:{problem}" for problem in wrong]
    assert (done.code, said) == (2, expected)
    looked = run("doctor", *flags, *shared, "--json")
    rows = [row for row in looked.json["checks"] if row["name"] == "here: config"]
    assert [row["detail"] for row in rows] == expected
    assert (looked.code, {row["status"] for row in rows}) == (1, {"fail"})
    assert [bool(row["advice"]) for row in rows] == [True] + [False] * (len(rows) - 1)
    assert not state.exists()


@pytest.mark.parametrize("role", ["engine", "api"])
def test_a_database_that_cannot_be_shared_hides_nothing_else(role: str, tmp_path: Path) -> None:
    config = tmp_path / "yaffle.toml"
    config.write_text('[notifiers.chat]\ntype = "webhok"\n[database]\nurl = "sqlite:///x.db"\n')
    config.chmod(0o600)
    done = run(role, "--config", str(config), "--state-dir", str(tmp_path / "state"))
    one, other = done.err.splitlines()
    assert (done.code, f"{config}:2: notifiers.chat.type = " in one) == (2, True)
    assert f"{config}:4: database.url = sqlite:///x.db: one engine alone holds" in other
