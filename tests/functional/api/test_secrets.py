"""No answer, log line or command shows a secret: every route and every command that looks is asked.

A project has handed over an application credential, which Keystone refuses later, in words that
repeat its secret. Routes and commands come from the program itself: a new one is searched, too.
"""

from __future__ import annotations

import asyncio
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.rig import Server, serving
from tests.contract.projects.cloud import NAME, FakeCloud, served
from tests.functional.api.live import SLEEPER
from tests.functional.api.people import PEOPLE, private
from tests.functional.api.test_rights import BODIES, ROWS, nothing
from tests.functional.cli.support import Done, run_here
from tests.unit.cli.test_tree import COMMANDS
from tests.waiting import wait_for

from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.stored_credentials import StoredCredentials
from yaffle.integrations.secret_box import KeyFile, add_key
from yaffle.model.credentials import Credential, CredentialKind
from yaffle.store import credentials as rows
from yaffle.store.database import open_store

SECRET = "canary-5f1d9c-of-the-application-credential"
PASSWORD = "canary-5f1d9c-of-the-service"
NOVA = "os.nova.server-1.0"
LOCAL = "yaffle.local.process-1.0"
ROOT, READER = PEOPLE["root"], PEOPLE["reader"]
SPEC = {"type": "yaffle.local.process", "version": "1.0", "properties": SLEEPER}
POLICY = {
    "type": "senlin.policy.health",
    "version": "1.3",
    "properties": {
        "detection": {
            "interval": 1, "node_update_timeout": 1, "rise": 1, "fall": 1,
            "detection_modes": [{"type": "NODE_STATUS_POLLING"}],
        },
        "recovery": {"actions": [{"name": "START", "timeout": 30}]},
    },
}  # fmt: skip
PATIENCE_S = 60.0

RUN_ON = {"serve", "engine", "api", "demo", "host-agent", "watch", "event follow", "action wait"}
"""Servers, and what waits for more to come."""
CHANGE = {
    *(
        "create",
        "update",
        "delete",
        "add-nodes",
        "remove-nodes",
        "replace-nodes",
        "attach",
        "detach",
    ),
    *(
        "recover",
        "op",
        "resize",
        "policy-enable",
        "policy-disable",
        "complete-lifecycle",
        "release",
    ),
    *("scale-in", "scale-out", "adopt", "unhealthy", "healthy", "ack", "start", "end", "cancel"),
    *(
        "mark",
        "fence",
        "unfence",
        "maintenance",
        "retry",
        "discard",
        "redeliver",
        "register",
        "unregister",
        "add",
        "remove",
        "passwd",
        "rotate",
        "new-key",
    ),
    *("migrate", "prune", "restored", "stop", "senlin", "validate"),
}
"""Last words of what changes something, or looks at a file alone: routes that do are all asked."""
CHECK = {"cluster check", "node check", "policy check"}
LOOK = sorted(
    words for words in {*COMMANDS} - RUN_ON - CHECK if words.rpartition(" ")[2] not in CHANGE
)


@dataclass
class House:
    """A server whose store holds secrets, the cloud that they are for, and what is there."""

    root: Path
    server: Server
    cloud: FakeCloud
    sealed: str
    http: httpx.Client
    words: dict[str, str] = field(default_factory=dict)

    def ask(
        self, method: str, path: str, body: object = None, *, who: Any = ROOT
    ) -> httpx.Response:
        url = self.server.root + path
        return self.http.request(method, url, json=body, headers=who.headers)

    def got(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def made(self, path: str, key: str, body: object) -> str:
        answer = self.ask("POST", f"/v1/{path}", body)
        assert answer.status_code in {200, 201, 202}, answer.text
        return str(answer.json()[key]["id"])

    def until(self, path: str, holds: Callable[[Any], object]) -> Any:
        return wait_for(lambda: holds(self.got(path)), within_s=PATIENCE_S, every_s=0.1)

    def cli(self, *words: str) -> Done:
        env = {
            "YAFFLE_CONFIG": str(self.root / "yaffle.toml"),
            "YAFFLE_STATE_DIR": str(self.server.state),
        }
        return run_here(*words, env=env)

    @property
    def secrets(self) -> Mapping[str, str]:
        """What must not be shown, by what it is."""
        keys = (self.root / "keys").read_text().split()
        return {
            "the application credential's secret": SECRET,
            "the service user's password": PASSWORD,
            "what is sealed": self.sealed,
            **{f"key {number}": key for number, key in enumerate(keys)},
            **{f"the token of {p.name}": p.token for p in PEOPLE.values()},
            **{f"a token of the cloud's, {t[:8]}…": t for t in self.cloud.seen},
        }

    def shown_in(self, text: str) -> list[str]:
        """Return which secrets somebody reads there."""
        return [what for what, secret in self.secrets.items() if secret in text]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    root = tmp_path_factory.mktemp("secrets")
    with served() as cloud:
        configure(root, cloud)
        sealed = asyncio.run(hand_over(root, cloud))
        flags = ("--config", str(root / "yaffle.toml"))
        # Loading the certificates of the world takes longer than what is asked.
        http = httpx.Client(timeout=60, trust_env=False, verify=False)
        with serving(root, *flags, YAFFLE_LOG__LEVEL="debug") as server, http:
            found = House(root=root, server=server, cloud=cloud, sealed=sealed, http=http)
            stock(found)
            refuse(found)
            yield found


def configure(root: Path, cloud: FakeCloud) -> None:
    """Write settings by which drivers act with the credentials of projects."""
    add_key(root / "keys")
    clouds = cloud.clouds_yaml(root / "clouds.yaml")
    known = json.loads(clouds.read_text())
    known["clouds"][NAME]["auth"]["password"] = PASSWORD
    clouds.write_text(json.dumps(known))
    # Commands on this machine take the first line.
    people = sorted(PEOPLE.values(), key=lambda person: person is not ROOT)
    tokens = private(root / "tokens", "".join(f"{person.line}\n" for person in people))
    lines = ["[server]", f'token_file = "{tokens}"', "[engine]", "poll = 0.1"]
    lines += ["[credentials]", f'keys_file = "{root / "keys"}"']
    for driver in (NOVA, "os.heat.stack-1.0", "MISTRAL_WORKFLOW"):
        lines += [f'[drivers."{driver}"]', f'cloud = "{NAME}"', f'clouds_file = "{clouds}"']
        lines += ['credentials = "projects"']
    (root / "yaffle.toml").write_text("\n".join(lines) + "\n")


async def hand_over(root: Path, cloud: FakeCloud) -> str:
    """Let a user of the project hand over a credential; return its seal."""
    (root / "state").mkdir(mode=0o700)
    clock = SystemClock()
    cloud.credentials["ac-one"] = (SECRET, "one")
    async with open_store(f"sqlite:///{root / 'state' / 'yaffle.db'}", clock=clock) as store:
        await StoredCredentials(store, KeyFile(root / "keys"), clock).put(
            Credential(
                id="", cloud=NAME, project="one", user="ann", reference="ac-one", secret=SECRET,
                kind=CredentialKind.APPLICATION_CREDENTIAL,
            )
        )  # fmt: skip
        (row,) = await store.read(rows.every)
        return row.sealed


def stock(house: House) -> None:
    """Have a server of the cloud's watched that fails, and one of each kind of thing."""
    ident = house.cloud.add("one", "11111111-0000-4000-8000-000000000000")
    words = house.words
    words["identity"] = ident
    # Nobody is told of hosts here: there is no such alert.
    words |= {"host": "cmp1", "alert": "1"}
    words |= dict.fromkeys(("segment", "segment_host", "notification", "vmove"), "1")
    adopted = {"identity": ident, "type": NOVA, "name": "web-1"}
    words["node"] = house.made("nodes/adopt", "node", adopted)
    words["profile"] = house.got(f"/v1/nodes/{words['node']}")["node"]["profile_id"]
    body = {"cluster": {"name": "web", "profile_id": words["profile"], "desired_capacity": 0}}
    words["cluster"] = house.made("clusters", "cluster", body)
    words["policy"] = house.made("policies", "policy", {"policy": {"name": "p", "spec": POLICY}})
    cluster = f"/v1/clusters/{words['cluster']}"
    house.until(cluster, lambda c: c["cluster"]["status"] == "ACTIVE")
    for asked in (
        {"policy_attach": {"policy_id": words["policy"], "enabled": True}},
        {"add_nodes": {"nodes": [words["node"]]}},
    ):
        action = house.ask("POST", f"{cluster}/actions", asked)
        assert action.status_code == 202, action.text
        words["action"] = action.json()["action"]
        house.until(
            f"/v1/actions/{words['action']}", lambda a: a["action"]["status"] == "SUCCEEDED"
        )
    receiver = {"name": "r", "type": "webhook", "action": "CLUSTER_SCALE_OUT"}
    body = {"receiver": {**receiver, "cluster_id": words["cluster"]}}
    words["receiver"] = house.made("receivers", "receiver", body)
    node = f"/v1/nodes/{words['node']}"
    house.until(node, lambda n: n["node"]["health"] == "healthy")
    house.cloud.servers[ident] |= {"status": "SHUTOFF", "OS-EXT-STS:power_state": 4}
    found = house.until("/yaffle/v1/incidents", lambda i: i["incidents"])
    words["incident"] = found[0]["id"]
    words["event"] = house.got("/v1/events")["events"][-1]["id"]


def refuse(house: House) -> None:
    """Have Keystone refuse the credential, in words that repeat what it was given."""
    house.cloud.refuses = f"no such secret: {SECRET}"
    house.cloud.revoke("ac-one")
    why = f"/yaffle/v1/nodes/{house.words['node']}/why"
    house.until(why, lambda told: "Keystone refuses" in json.dumps(told))


def target(house: House, path: str) -> str:
    """Return a path with the ids of what is there."""
    words = {**house.words, "type": NOVA, "pause": "nobody-knows"}
    ours = path.replace("{path:path}", "id")
    asked = re.sub(r"{(\w+)}", lambda found: words[found[1]], ours)
    return f"{asked}?V=2" if "webhooks" in path else asked


def test_what_tells_of_credentials_tells_whose_they_are(house: House) -> None:
    assert "ac-one" in house.cli("credential", "list").out
    assert "Keystone refuses" in house.cli("why", house.words["node"], "--json").out


@pytest.mark.parametrize("words", LOOK, ids=lambda words: words.replace(" ", "-"))
def test_no_command_that_looks_shows_one(
    house: House, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    known = {**house.words, "kind": NOVA, "path": "id", "file": str(house.root / "tokens")}
    given: list[str] = []
    for parameter in COMMANDS[words].params:
        if parameter.required:
            named = parameter.param_type_name == "option"
            given += [*([parameter.opts[0]] if named else []), known[parameter.name]]
    for more in ([], ["--json"]):
        done = house.cli(*words.split(), *given, *more)
        assert done.code != 2 or words == "user list", done.err
        assert house.shown_in(done.out + done.err) == []
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert house.shown_in(unpacked(path)) == [], path


def unpacked(path: Path) -> str:
    """Return all that is in a file, also if it is a bundle of files."""
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as bundle:
            files = [bundle.extractfile(one) for one in bundle.getmembers()]
            content = [file.read() for file in files if file is not None]
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as zipped:
            content = [zipped.read(name) for name in zipped.namelist()]
    else:
        content = [path.read_bytes()]
    return b"\n".join(content).decode(errors="replace")


def test_no_answer_of_any_route_shows_one(house: House) -> None:
    order = {"GET": 0, "POST": 1, "PUT": 1, "PATCH": 1, "DELETE": 2}
    looks = [row for row in ROWS if row[0] == "GET"]
    adopting = {"identity": house.words["identity"], "type": NOVA, "name": "again"}
    told = ""
    for method, path in [*sorted(ROWS, key=lambda row: order[row[0]]), *looks]:
        body = BODIES.get((method, path), nothing)(house.words)
        if "adopt" in path:
            body = adopting
        for who in (ROOT, READER) if method == "GET" else (ROOT,):
            answer = house.ask(method, target(house, path), body, who=who)
            said = f"{answer.headers}\n{answer.text}"
            told += said
            assert house.shown_in(said) == [], f"{method} {path}: {said[:2000]}"
    # The same search finds what is there to be found, or it would prove nothing.
    assert "Keystone refuses the application credential ac-one" in told
    assert house.words["node"] in told


def test_nothing_that_is_logged_shows_one(house: House) -> None:
    said = house.server.log()
    assert "credential refused" in said
    assert house.shown_in(said) == []
