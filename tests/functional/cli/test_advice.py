"""Every command that Yaffle advises works when it is pasted: each is run where it is advised.

The advice is found in the source, so that one which nobody has tried fails the first test.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.functional.cli.support import (
    POLICY,
    Done,
    Server,
    profile_document,
    run_here,
    swept,
    wait_for,
)

from yaffle.cli.app import tree

ROOT: Final = Path(__file__).parents[3]
SOURCES: Final = sorted((ROOT / "src" / "yaffle").rglob("*.py"))
KIND: Final = "yaffle.local.process-1.0"
GROUPS: Final = "|".join(sorted(tree().commands))
COMMAND: Final = re.compile(rf"`yaffle ([^`]+)`|\byaffle ((?:{GROUPS})\b[^`.,;:\n]*)")
PLACE: Final = re.compile(r"\{[^{}]*\}|\b[A-Z]{2,}\b")
"""What is filled in: by the program, or in capitals by whoever types it."""


def template(command: str) -> str:
    """Return the command with `_` for what is filled in."""
    return PLACE.sub("_", command).strip()


def advised(path: Path) -> set[str]:
    """Return the templates of all commands in strings of a module that are no docstrings."""
    tree = ast.parse(path.read_text())
    inner: set[int] = set()
    texts: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in ast.walk(node) if part is not node}
            texts.append(
                "".join(
                    part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
                )
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts += [node.value] if id(node) not in inner else []
    return {template(quoted or bare) for text in texts for quoted, bare in COMMAND.findall(text)}


@dataclass
class Paste:
    """A terminal beside the server, into which advice is pasted."""

    server: Server
    profile: str
    tried: set[str] = field(default_factory=set)
    made: list[str] = field(default_factory=list)

    def __call__(self, text: str, wanted: str, *fill: str, code: int = 0, given: str = "") -> Done:
        """Run the command of `text` that is `wanted`; `fill` takes the place of words in capitals."""
        shape = re.compile(re.escape(wanted).replace("_", r"('[^']+'|\S+)"))
        found = [quoted or bare for quoted, bare in COMMAND.findall(text)]
        command = next((one.strip() for one in found if shape.fullmatch(one.strip())), None)
        assert command is not None, f"no `{wanted}` in:\n{text}"
        values = iter(fill)
        line = PLACE.sub(lambda _: shlex.quote(next(values)), command)
        # A password is typed into the terminal; here it comes by the input.
        more = ("--password-stdin",) if given else ()
        done = self.server.cli(*shlex.split(line), *more, given=given)
        assert done.code == code, f"{line}: {done.code}\n{done.out}\n{done.err}"
        self.tried.add(wanted)
        return done

    def cluster(self, size: int, **recovery: Any) -> str:
        """Make a cluster under a policy of its own, wait until it is well, and return its name."""
        document = yaml.safe_load(POLICY)
        document["properties"]["recovery"] |= recovery
        name = f"c{uuid.uuid4().hex[:6]}"
        self.server.ok("policy", "create", name, "-", given=json.dumps(document))
        words = ("--profile", self.profile, "--size", str(size), "--policy", name)
        self.server.ok("cluster", "create", name, *words)
        self.made.append(name)
        wait_for(lambda: all(n["health"] == "healthy" for n in self.nodes(name)))
        return name

    def nodes(self, cluster: str) -> list[dict[str, Any]]:
        return list(self.server.ok("node", "list", "--cluster", cluster, "--json").json["nodes"])

    def mark(self, node: str) -> None:
        self.server.ok("node", "mark", "unhealthy", node, "--reason", "the test says so")

    def held(self, node: str, reason: str) -> str:
        """Wait until the node is held for `reason`, and return what `yaffle why` says."""
        said = f"It is left alone ({reason})"
        wait_for(lambda: said in self.server.ok("why", node).out)
        return self.server.ok("why", node).out

    def well(self, node: str) -> None:
        wait_for(
            lambda: self.server.ok("node", "show", node, "--json").json["watch"]["mark"] is None
        )

    def healed_once(self, cluster: str) -> str:
        """Return the name of a node that was recovered once."""
        node = f"{cluster}-1"
        self.mark(node)
        self.well(node)
        return node


def _stopped(paste: Paste) -> None:
    node = f"{paste.cluster(1)}-1"
    paste.server.ok("stop", "--all", "--reason", "the test")
    paste.mark(node)
    why = paste.held(node, "stopped")
    paste(why, "explain _")
    begun = paste.server.ok("node", "recover", node, "--no-wait").out
    paste(paste.server.ok("why", node).out, "action cancel _")
    assert "cancelled" in paste(begun, "action wait _", code=1).err
    paste(paste.server.cli("doctor").out, "stop --lift")
    assert "nothing is stopped" in paste.server.ok("stop", "--show").out
    paste.well(node)


def _lifted_as_why_says(paste: Paste) -> None:
    node = f"{paste.cluster(1)}-1"
    paste(NOTED, "stop --all --reason _", "the test")
    paste.mark(node)
    paste(paste.held(node, "stopped"), "stop --lift")
    paste.well(node)


def _maintenance(paste: Paste) -> None:
    node = f"{paste.cluster(1)}-1"
    paste.server.ok("maintenance", "start", "--node", node, "--reason", "a disk")
    paste.mark(node)
    paste(paste.held(node, "maintenance"), "maintenance end _")
    paste.well(node)
    unknown = paste.server.cli("maintenance", "end", "abcdef99")
    paste(unknown.err, "maintenance list")


def _marked(paste: Paste) -> None:
    node = f"{paste.cluster(1, mode='observe')}-1"
    paste.mark(node)
    why = paste.held(node, "observe-mode")
    paste(why, "node mark healthy _")
    paste.well(node)
    paste.mark(node)
    paste(paste.held(node, "observe-mode"), "node recover _")
    paste.well(node)


def _storm(paste: Paste) -> None:
    cluster = paste.cluster(3, limits={"max_unhealthy": 1, "max_in_flight": 1})
    nodes = [node["name"] for node in paste.nodes(cluster)]
    paste.server.ok("stop", "--all", "--reason", "all at once")
    for node in nodes:
        paste.mark(node)
    paste.server.ok("stop", "--lift")
    why = paste.held(nodes[0], "storm")
    paste(why, "node recover _")
    paste(paste.held(nodes[1], "storm"), "cluster release _ --reason _", "tested")
    for node in nodes:
        paste.well(node)


def _cooling_down(paste: Paste) -> None:
    retry = {"attempts": 5, "backoff": 600, "max_backoff": 600, "stable_after": 3600}
    node = paste.healed_once(paste.cluster(1, retry=retry))
    paste.mark(node)
    paste(paste.held(node, "cooling-down"), "node recover _")
    paste.well(node)


def _exhausted(paste: Paste) -> None:
    retry = {"attempts": 1, "backoff": 1, "max_backoff": 1, "stable_after": 3600}
    node = paste.healed_once(paste.cluster(1, retry=retry))
    paste.mark(node)
    why = paste.held(node, "needs-human")
    # The same is said by the row, by the doctor and at a glance.
    reason = paste.server.ok("node", "show", node, "--json").json["node"]["status_reason"]
    status = paste.server.ok("status").out
    doctor = paste.server.cli("doctor").out
    ident = re.search(rf"{node} \(incident (\w+)\)", doctor)
    assert ident is not None, doctor
    for text in (why, reason, status):
        paste(text, "incident ack _")
        paste.well(node)
        paste.mark(node)
        paste.held(node, "needs-human")
    paste(doctor, "node recover _", node)
    paste.well(node)


def _of_one_name(paste: Paste) -> None:
    """Where two nodes have one name, the command means the one that was asked about."""
    cluster = paste.cluster(1, mode="observe")
    first = paste.nodes(cluster)[0]["id"]
    again = ("--profile", paste.profile, "--allow-duplicate")
    paste.server.ok("node", "create", f"{cluster}-1", *again)
    paste.mark(first)
    paste(paste.held(first, "observe-mode"), "node recover _")
    paste.well(first)
    paste.mark(first)
    paste(paste.held(first, "observe-mode"), "node mark healthy _")
    paste.well(first)
    (lone,) = {n["id"] for n in paste.server.ok("node", "list", "--json").json["nodes"]
               if n["name"] == f"{cluster}-1"} - {first}  # fmt: skip
    paste.server.ok("node", "delete", lone)


def _unprotected(paste: Paste) -> None:
    cluster = paste.cluster(1)
    paste.server.ok("cluster", "detach", cluster, cluster)
    paste(paste.server.cli("doctor").out, "cluster attach _ _", cluster, cluster)


def _waits(paste: Paste) -> None:
    cluster = paste.cluster(1)
    done = paste.server.ok("cluster", "check", cluster).out
    paste(done, "cluster show _")
    paste(HELP, "profile-type ops _", KIND)
    missing = paste.server.cli("why", "nobody")
    paste(missing.err, "node list")
    missing = paste.server.cli("incident", "show", "abcdef99")
    paste(missing.err, "incident list")


HELP: Final = "As `yaffle profile-type ops TYPE` shows them"
NOTED: Final = "stop all healing here first (`yaffle stop --all --reason WHY`)"


def _said_of_the_service(paste: Paste) -> None:
    """What needs nothing staged: it looks, or repeats what is over."""
    for text in (
        "doctor",
        "status",
        "events",
        "outbox list",
        "outbox redeliver",
        "alert list",
        "host list",
    ):
        paste(f"`yaffle {text}`", text)
    for text in ("explain host-quarantined", "explain host-unfenced"):
        paste(f"`yaffle {text}`", text)
    state = str(paste.server.state_dir)
    for text in ("db prune", "credential list", "audit verify"):
        done = run_here(*text.split(), "--state-dir", state)
        assert done.code == 0, done
        paste.tried.add(text)


def _first_steps(paste: Paste) -> None:
    """What empty lists say, in its order."""
    name = f"e{uuid.uuid4().hex[:6]}"
    folder = paste.server.state_dir.parent
    (folder / "profile.json").write_text(profile_document(paste.profile))
    (folder / "policy.yaml").write_text(POLICY)
    server = Server(folder / name)
    server.start()
    try:
        fresh = Paste(server, name)
        profile, policy = str(folder / "profile.json"), str(folder / "policy.yaml")
        fresh(server.ok("profile", "list").out, "profile create _ _", "p", profile)
        fresh(server.ok("policy", "list").out, "policy create _ _", "h", policy)
        fresh(server.ok("cluster", "list").out, "cluster create _ --profile _ --size 3", "c", "p")
        fresh(server.ok("cluster", "policies", "c").out, "cluster attach _ _", "c", "h")
        words = ("r", "c", "CLUSTER_CHECK")
        fresh(server.ok("receiver", "list").out, "receiver create _ --cluster _ --action _", *words)
        fresh(server.ok("node", "list").out + "`yaffle why NODE`", "why _", "c-1")
        fresh("`yaffle receiver delete NAME`", "receiver delete _", "r")
        server.ok("cluster", "delete", "c")
        paste.tried |= fresh.tried
    finally:
        server.stop()


def _people(paste: Paste) -> None:
    file = paste.server.state_dir.parent / "users"
    users = ("--file", str(file), "--password-stdin")
    paste("`yaffle user add NAME --file FILE`", "user add _ --file _", "ann", str(file), given=WORD)
    again = run_here("user", "add", "ann", *users, given=WORD)
    paste(again.err, "user passwd _ --file _", given=WORD)
    unknown = run_here("user", "remove", "bob", "--file", str(file))
    paste(unknown.err, "user list --file _", str(file))


WORD: Final = "correct horse battery\n"


def _keys(paste: Paste) -> None:
    file = paste.server.state_dir.parent / "keys of ours"
    file.touch(mode=0o600)
    from yaffle.errors import ConfigError
    from yaffle.integrations.secret_box import KeyFile

    with pytest.raises(ConfigError) as refused:
        KeyFile(file).words()
    paste(str(refused.value), "credential new-key --file _")
    assert KeyFile(file).words()


@dataclass(frozen=True, slots=True)
class Situation:
    """Where advice is given, and all of it that is tried there."""

    play: Callable[[Paste], None]
    advice: frozenset[str]


def _in(play: Callable[[Paste], None], *advice: str) -> Situation:
    return Situation(play, frozenset(advice))


SITUATIONS: Final[Mapping[str, Situation]] = {
    "healing is stopped": _in(
        _stopped, "explain _", "action cancel _", "action wait _", "stop --lift"
    ),
    "healing was stopped while another healer lives": _in(
        _lifted_as_why_says, "stop --all --reason _", "stop --lift"
    ),
    "planned work": _in(_maintenance, "maintenance end _", "maintenance list"),
    "marked, and only observed": _in(_marked, "node mark healthy _", "node recover _"),
    "a storm": _in(_storm, "node recover _", "cluster release _ --reason _"),
    "a rest": _in(_cooling_down, "node recover _"),
    "attempts used up": _in(_exhausted, "incident ack _", "node recover _"),
    "one-name": _in(_of_one_name, "node recover _", "node mark healthy _"),
    "no policy": _in(_unprotected, "cluster attach _ _"),
    "after a check": _in(
        _waits, "cluster show _", "profile-type ops _", "node list", "incident list"
    ),
    "the service": _in(
        _said_of_the_service,
        *(
            "doctor",
            "status",
            "events",
            "outbox list",
            "outbox redeliver",
            "alert list",
            "host list",
        ),
        *("explain host-quarantined", "explain host-unfenced"),
        *("db prune", "credential list", "audit verify"),
    ),
    "nothing there yet": _in(
        _first_steps,
        *("profile create _ _", "policy create _ _", "cluster create _ --profile _ --size 3"),
        *("cluster attach _ _", "receiver create _ --cluster _ --action _", "why _"),
        "receiver delete _",
    ),
    "people": _in(_people, "user add _ --file _", "user passwd _ --file _", "user list --file _"),
    "no-key": _in(_keys, "credential new-key --file _"),
}
ELSEWHERE: Final[Mapping[str, str]] = {
    "serve": "tests/functional/cli/support.py::Server",
    "engine": "tests/functional/apart/test_together.py",
    "_": "tests/functional/apart/test_together.py",  # `yaffle engine`, which SQLite refuses
    "demo": "tests/functional/cli/test_demo.py",
    "watch --cloud _": "tests/functional/cli/test_watch.py",
    "db migrate": "tests/functional/apart/fleet.py",
    "credential add --id _": "tests/functional/cli/test_credentials.py",
    "host why _": "tests/contract/host_monitors/test_pacemaker.py",
    "host fence _ --reason _": "tests/contract/host_monitors/test_pacemaker.py",
    "alert list --host _": "tests/contract/host_monitors/test_pacemaker.py",
    "host mark _ --proof _": "tests/functional/cli/test_alerts.py",
    "host-agent": "tests/functional/cli/test_host_agent.py",
    "incident show _": "tests/functional/cli/test_commands.py",
}
"""What is run by tests of its own, for it needs a cloud, a terminal or a service of its own."""
SPOKEN: Final = {"user", "why"}
"""Groups and commands that help texts speak of, for nobody to type as they stand."""


def test_every_advised_command_is_tried() -> None:
    found: dict[str, str] = {}
    for path in SOURCES:
        # Made-up answers of the reference of the API.
        if path.name != "examples.py":
            found |= dict.fromkeys(advised(path), str(path.relative_to(ROOT)))
    tried = {one for situation in SITUATIONS.values() for one in situation.advice}
    # `yaffle {word} list` of whatever was not found.
    words = {"node list" if one == "_ list" else one for one in found}
    assert words - tried - set(ELSEWHERE) - SPOKEN == set()
    assert (set(ELSEWHERE) | SPOKEN) - words == set()
    assert all((ROOT / where.partition("::")[0]).is_file() for where in ELSEWHERE.values())


@pytest.fixture(scope="module")
def ward() -> Iterator[str]:
    """The mark of all processes here, by which the profile is called as well."""
    mark = f"ward-{uuid.uuid4().hex}"
    with swept(mark):
        yield mark


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory, ward: str) -> Iterator[Server]:
    """A server of which much is wrong by turns."""
    server = Server(tmp_path_factory.mktemp("advice") / "state")
    server.start()
    try:
        server.ok("profile", "create", ward, "-", given=profile_document(ward))
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("name", SITUATIONS)
def test_advice_works_when_pasted(hospital: Server, ward: str, name: str) -> None:
    situation = SITUATIONS[name]
    paste = Paste(hospital, ward)
    situation.play(paste)
    assert paste.tried == situation.advice
    for cluster in paste.made:
        hospital.ok("cluster", "delete", cluster)
