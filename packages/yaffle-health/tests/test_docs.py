"""What the pages of yaffle-health show is done: commands typed, programs run, configurations checked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from health_servers import free_port
from tests.docs.pages import Block, blocks, prose
from tests.docs.terminal import Differs, Terminal, dialogue, matches

PACKAGE = Path(__file__).parents[1]
PAGES = [PACKAGE / "README.md", *sorted((PACKAGE / "docs").rglob("*.md"))]
BOUND_S = 120.0
PORTS = ("9000", "8000")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TEST = re.compile(r"\btests/(test_\w+\.py)(?:::(\w+))?")
FORBIDDEN = re.compile(r"/work\b|/root\b|/tmp/|\bTODO\b|\bFIXME\b|lorem ipsum", re.IGNORECASE)


def name_of(page: Path) -> str:
    return str(page.relative_to(PACKAGE))


def every(page: Path = PACKAGE) -> list[pytest.ParameterSet]:
    return [pytest.param(page, id=name_of(page)) for page in PAGES]


def of(*languages: str, word: str | None = None) -> list[pytest.ParameterSet]:
    """Return the blocks of some languages, for a test each."""
    return [
        pytest.param(block, id=block.place.rsplit("yaffle-health/", 1)[-1])
        for page in PAGES
        for block in blocks(page)
        if block.language in languages and (word is None or word in block.words)
    ]


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("YAFFLE_", "PYTEST"))}
    return {**kept, "PATH": path, "HOME": str(tmp_path), "COLUMNS": "200"}


@pytest.fixture
def terminal(tmp_path: Path, variables: dict[str, str]) -> Iterator[Terminal]:
    opened = Terminal(tmp_path, variables)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page))
        for page in PAGES
        if any(b.word("file") for b in blocks(page))
    ],
)
def test_a_page_can_be_followed(page: Path, tmp_path: Path, terminal: Terminal) -> None:
    """Typed as it stands, but for the ports: somebody may be using the usual ones."""
    ports = {port: str(free_port()) for port in PORTS}

    def moved(text: str) -> str:
        for usual, free in ports.items():
            text = text.replace(f"127.0.0.1:{usual}", f"127.0.0.1:{free}")
        return text

    for block in blocks(page):
        if (name := block.word("file")) is not None:
            (tmp_path / name).write_text(moved(block.text))
        elif block.language == "console":
            for command, shown in dialogue(moved(block.text)):
                output, code = terminal.run(command, BOUND_S)
                # The shell's own words about what it put into the background.
                output = re.sub(r"^\[\d\].*\n?", "", output, flags=re.MULTILINE)
                if code != 0 or not matches(shown, output):
                    raise Differs(f"{block.place}: `{command}` exits {code} and says:\n{output}")


@pytest.mark.parametrize("block", of("python", word="run"))
def test_a_program_runs(block: Block, tmp_path: Path, variables: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.text],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_S,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), f"{block.place}\n{ran.stderr}"


@pytest.mark.parametrize("block", of("python"))
def test_python_is_python(block: Block) -> None:
    compile(block.text, block.place, "exec")


@pytest.mark.parametrize("block", of("yaml"))
def test_yaml_is_yaml(block: Block) -> None:
    assert isinstance(yaml.safe_load(block.text), dict | list), block.place


@pytest.mark.parametrize("block", of("haproxy"))
def test_haproxy_takes_its_configuration(block: Block, tmp_path: Path) -> None:
    haproxy = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if haproxy is None:
        pytest.skip("haproxy is not installed")
    (tmp_path / "haproxy.cfg").write_text(block.text)
    ran = subprocess.run(
        [haproxy, "-c", "-f", "haproxy.cfg"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_S,
    )
    assert ran.returncode == 0, ran.stderr
    assert "WARNING" not in ran.stderr, ran.stderr


@pytest.mark.parametrize("page", every())
def test_links_lead_somewhere(page: Path) -> None:
    text = prose(page)
    targets = [t.partition("#")[0] for t in LINK.findall(text) if "://" not in t]
    assert [t for t in targets if t and not (page.parent / t).exists()] == []


@pytest.mark.parametrize("page", every())
def test_tests_that_a_page_names_exist(page: Path) -> None:
    for file, function in TEST.findall(page.read_text()):
        named = PACKAGE / "tests" / file
        assert named.exists(), f"{name_of(page)} names {file}"
        assert not function or f"def {function}(" in named.read_text(), f"{file}::{function}"


@pytest.mark.parametrize("page", every())
def test_a_page_does_not_speak_of_the_machine_it_comes_from(page: Path) -> None:
    assert FORBIDDEN.findall(page.read_text()) == []


def test_every_decision_and_how_to_is_listed() -> None:
    for folder, index in (("docs/adr", "docs/adr/README.md"), ("docs/howto", "README.md")):
        listed = set(LINK.findall((PACKAGE / index).read_text()))
        names = {p.name for p in (PACKAGE / folder).glob("*.md")} - {"README.md"}
        assert names <= {Path(t).name for t in listed}, index
