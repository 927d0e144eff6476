"""What the pages show is done: commands are typed, files are written, documents are parsed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, Block, blocks, name_of, pages
from tests.docs.terminal import PAUSE_S, Differs, Terminal, dialogue, matches
from tests.servers.authority import authority

from yaffle.config import load
from yaffle.drivers.profiles.heat_stack import spec as heat_stack
from yaffle.drivers.profiles.local_process import spec as local_process
from yaffle.drivers.profiles.nova_server import spec as nova_server
from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.stored_credentials import kept_credentials
from yaffle.integrations.secret_box import add_key
from yaffle.policy import parse
from yaffle.prober.client import ProberClient
from yaffle.store.database import open_store
from yaffle.wiring import address_rules, load_drivers

PLAYED = {"run", "serve", "until"}
ELSEWHERE = {"docs/howto/write-a-driver.md"}
"""Its blocks belong together and have a test of their own: test_driver_howto.py."""
IN_A_CLOUD = {"docs/tutorial/first-nova-cluster.md"}
"""Followed in tests/openstack, which has one."""
IN_A_CLUSTER = {"docs/tutorial/first-host.md"}
"""Followed in tests/contract/host_monitors, which have one."""
PROFILES = {
    "os.heat.stack": heat_stack.validate,
    "os.nova.server": nova_server.validate,
    "yaffle.local.process": local_process.validate,
}
BOUND_S = 180.0


def played() -> list[Path]:
    """Return the pages that are to be followed here."""
    return [
        p
        for p in pages()
        if name_of(p) not in IN_A_CLOUD | IN_A_CLUSTER
        and any(set(b.words) & PLAYED for b in blocks(p))
    ]


class Reader:
    """A person with an empty home, two terminals and a page in front of them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("YAFFLE_", "PYTEST", "MAKE", "MFLAGS"))
        }
        self._variables = {
            **kept,
            "HOME": str(home),
            "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}",
            "COLUMNS": "200",
            # Any free port: somebody may be using the usual one.
            "YAFFLE_SERVER__LISTEN": "127.0.0.1:0",
        }
        self._terminals: list[Terminal] = []
        self._first: Terminal | None = None

    def follow(self, block: Block) -> None:
        """Do what one block says."""
        if (name := block.word("file")) is not None:
            (self.home / name).write_text(block.text)
        elif "serve" in block.words:
            self._serve(block)
        elif "until" in block.words:
            self._until(block)
        elif "run" in block.words:
            self._run(block)

    def _open(self, folder: Path) -> Terminal:
        opened = Terminal(folder, self._variables)
        self._terminals.append(opened)
        return opened

    def _terminal(self, block: Block) -> Terminal:
        if block.word("in") == "repository":
            return self._open(ROOT)
        if self._first is None:
            self._first = self._open(self.home)
        return self._first

    def _run(self, block: Block) -> None:
        terminal = self._terminal(block)
        for command, shown in dialogue(block.text):
            output, code = terminal.run(command, BOUND_S)
            if code != 0 or not matches(shown, output):
                raise Differs(f"{block.place}: `{command}` exits {code} and says:\n{output}")

    def _until(self, block: Block) -> None:
        [(command, shown)] = dialogue(block.text)
        terminal = self._terminal(block)
        ends = time.monotonic() + BOUND_S
        while True:
            output, code = terminal.run(command, BOUND_S)
            if code == 0 and matches(shown, output):
                return
            if time.monotonic() > ends:
                raise Differs(f"{block.place}: `{command}` exits {code} and still says:\n{output}")
            time.sleep(PAUSE_S)

    def _serve(self, block: Block) -> None:
        [(command, shown)] = dialogue(block.text)
        terminal = self._open(self.home)
        terminal.type(f"{command}\n")
        words = [re.escape(w) for w in shown.replace("…", " ").split()]
        terminal.read(re.compile(".*".join(words)), BOUND_S)

    def close(self) -> None:
        """Close every terminal, the last one first."""
        for terminal in reversed(self._terminals):
            terminal.close()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    found = Reader(tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize("page", [pytest.param(p, id=name_of(p)) for p in played()])
def test_a_page_can_be_followed(page: Path, reader: Reader) -> None:
    for block in blocks(page):
        reader.follow(block)


def of_language(*languages: str) -> list[object]:
    return [
        pytest.param(b, id=b.place)
        for p in pages()
        for b in blocks(p)
        if b.language in languages and "fragment" not in b.words and b.page not in ELSEWHERE
    ]


@pytest.mark.parametrize("block", of_language("yaml"))
def test_a_document_is_accepted(block: Block) -> None:
    import yaml

    document = yaml.safe_load(block.text)
    if document["type"].startswith("senlin.policy."):
        parse(block.text, source=block.place)
    else:
        PROFILES[document["type"]](document["properties"])


@pytest.mark.parametrize("block", of_language("toml"))
def test_settings_are_accepted(block: Block, tmp_path: Path) -> None:
    if "fence_ipmilan" in block.text and shutil.which("fence_ipmilan") is None:
        pytest.skip("there are no fence agents")
    file = tmp_path / "yaffle.toml"
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef\n")
    secret.chmod(0o600)
    keys = tmp_path / "keys"
    add_key(keys)
    text = re.sub(r'"[^"]*secret"', f'"{secret}"', block.text)
    if "/etc/yaffle/engine.pem" in text:
        authority(tmp_path).issue("engine")
        (tmp_path / "ca.pem").rename(tmp_path / "hosts-ca.pem")
        text = re.sub(r'"/etc/yaffle/([\w-]+\.(pem|key))"', rf'"{tmp_path}/\1"', text)
    # A program of the reader's own.
    text = re.sub(r'^program = ".*"', 'program = "/bin/true"', text, flags=re.MULTILINE)
    file.write_text(re.sub(r'"[^"]*\.keys"', f'"{keys}"', text))
    settings = load(file, {"state_dir": tmp_path / "state"})
    clock, rules = SystemClock(), address_rules(settings)
    never_started = ProberClient(clock=clock, on_blind=lambda _cause: None, rules=rules)
    store = open_store("sqlite://", clock=clock, runner="inline")
    kept = kept_credentials(settings, store, clock)
    load_drivers(settings, clock, never_started, credentials=kept)
    asyncio.run(store.close())


@pytest.mark.parametrize("block", of_language("python"))
def test_python_runs(block: Block) -> None:
    exec(compile(block.text, block.place, "exec"), {"__name__": "docs"})


@pytest.mark.parametrize(
    ("expected", "output", "same"),
    [
        pytest.param("a … c", "a b c", True, id="within-a-line"),
        pytest.param("a … c", "a b\nc", False, id="not-across-lines"),
        pytest.param("…\nb\n…", "a\na\nb\nc\n", True, id="lines"),
        pytest.param("b", "a\nb", False, id="whole"),
        pytest.param("a   b", "a b", True, id="blanks-do-not-count"),
        pytest.param("a", "b", False, id="different"),
        pytest.param("", "anything", True, id="nothing-promised"),
    ],
)
def test_the_reader_is_strict(expected: str, output: str, same: bool) -> None:
    assert matches(expected, output) is same
