"""The tree of commands: everything explains itself, and asking for help imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from yaffle.cli.app import tree

WANTED = {
    "serve", "watch", "engine", "api", "engines", "demo", "status", "why", "events", "stop", "doctor",
    "explain", "decision list", "decision check", "decisions list", "decisions check", "db restored",
    *(f"profile {w}" for w in ("create", "validate", "list", "show", "update", "delete")),
    *(f"profile-type {w}" for w in ("list", "show", "ops")),
    *(f"policy {w}" for w in ("validate", "check", "create", "list", "show", "update", "delete")),
    *(f"policy-type {w}" for w in ("list", "show")),
    *(f"cluster {w}" for w in ("create", "list", "show", "update", "delete",
                               "scale-out", "scale-in", "resize", "members",
                               "add-nodes", "remove-nodes", "replace-nodes",
                               "policies", "attach", "detach", "policy-enable", "policy-disable",
                               "check", "recover", "op", "attrs", "complete-lifecycle", "release")),
    *(f"node {w}" for w in ("create", "list", "show", "update", "delete", "check", "op",
                            "recover", "adopt", "preview", "mark unhealthy", "mark healthy")),
    *(f"receiver {w}" for w in ("create", "list", "show", "update", "delete")),
    *(f"action {w}" for w in ("list", "show", "wait", "cancel")),
    *(f"event {w}" for w in ("list", "show", "follow")),
    "service list",
    *(f"incident {w}" for w in ("list", "show", "ack")),
    *(f"maintenance {w}" for w in ("start", "list", "end")),
    *(f"openstack {w}" for w in ("register", "unregister")),
    *(f"credential {w}" for w in ("add", "list", "remove", "rotate", "new-key")),
    *(f"outbox {w}" for w in ("list", "redeliver")),
    "host mark",
    *(f"host {w}" for w in ("list", "show", "why", "fence", "unfence", "maintenance", "notifications")),
    "host-agent",
    *(f"alert {w}" for w in ("list", "show", "retry", "discard")),
    *(f"user {w}" for w in ("add", "list", "remove", "passwd")),
    "import senlin",
    "audit verify",
    *(f"db {w}" for w in ("prune", "migrate", "check")),
}  # fmt: skip
LOCAL = {"serve", "engine", "api", "demo", "host-agent"}
HEAVY = ("httpx", "httpx._main", "sqlalchemy", "fastapi", "structlog", "yaml", "asyncio", "rich",
         "pydantic")  # fmt: skip


def walk(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            assert command.help, name
            yield from walk(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(walk(tree()))


def test_every_command_is_there() -> None:
    assert set(COMMANDS) == WANTED


@pytest.mark.parametrize("words", sorted(WANTED))
def test_every_command_and_option_explains_itself(words: str) -> None:
    command = COMMANDS[words]
    assert command.help
    assert command.help.splitlines()[0].endswith((".", ":", ";"))
    for parameter in command.params:
        if parameter.param_type_name == "option":
            assert parameter.help, f"{words} {parameter.name}"


@pytest.mark.parametrize("words", sorted(WANTED - LOCAL))
def test_every_command_speaks_json(words: str) -> None:
    options = {option for parameter in COMMANDS[words].params for option in parameter.opts}
    assert "--json" in options


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        pytest.param("--help", (), id="help"),
        pytest.param("--version", (), id="version"),
        pytest.param("node --help", (), id="help of a group"),
        # What operators run again and again; the imports are nearly all of its time.
        pytest.param("status --server http://127.0.0.1:1", ("httpx",), id="asking"),
    ],
)
def test_nothing_heavy_is_imported_that_is_not_needed(words: str, needed: tuple[str, ...]) -> None:
    code = (
        "import sys\nfrom yaffle.cli import main\n"
        f"try: main({words.split()!r})\n"
        f"except SystemExit: print('heavy:', [m for m in {HEAVY!r}"
        f" if sys.modules.get(m) and m not in {needed!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("heavy: []\n"), done


def test_only_the_modules_of_the_typed_word_are_imported() -> None:
    code = (
        "import sys\nfrom yaffle.cli import main\n"
        "try: main(['status', '--server', 'http://127.0.0.1:1'])\n"
        "except SystemExit: print(sorted(m[20:] for m in sys.modules"
        " if m.startswith('yaffle.cli.commands.')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout == "['cluster_creation', 'clusters', 'nodes', 'status']\n", done
