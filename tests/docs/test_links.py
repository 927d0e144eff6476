"""Links lead somewhere, named tests exist, and pages do not speak of the machine they come from."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tests.docs.pages import DOCS, ROOT, blocks, name_of, pages, prose

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TEST = re.compile(r"tests/[\w/.-]+\.(?:py|story|patch)(?:::\w+)?")
FORBIDDEN = re.compile(
    r"/work\b|/root\b|/tmp/|\bTODO\b|\bFIXME\b|\bXXX\b|lorem ipsum", re.IGNORECASE
)
PAGES = [pytest.param(p, id=name_of(p)) for p in pages()]


def slug(title: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain))


@cache
def anchors(page: Path) -> frozenset[str]:
    found = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return frozenset(map(slug, found))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall(prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            broken.append(target)
    assert not broken


@cache
def names_in(path: Path) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(t.id for t in node.targets if isinstance(t, ast.Name))
    return frozenset(names)


@pytest.mark.parametrize("page", PAGES)
def test_named_tests_exist(page: Path) -> None:
    missing = []
    for named in TEST.findall(page.read_text()):
        path, _, name = named.partition("::")
        file = ROOT / path
        if not file.exists() or (name and name not in names_in(file)):
            missing.append(named)
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_pages_speak_of_no_machine(page: Path) -> None:
    assert not FORBIDDEN.findall(page.read_text())


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    left = [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        targets = [t.partition("#")[0] for t in LINK.findall(prose(page)) if "://" not in t]
        left.extend((page.parent / t).resolve() for t in targets)
    assert [name_of(p) for p in sorted(set(DOCS.rglob("*.md")) - seen)] == []


@pytest.mark.parametrize("page", PAGES)
def test_fences_say_what_they_hold(page: Path) -> None:
    known = {"sh", "console", "text", "yaml", "toml", "json", "python", "mermaid", "ini"}
    assert [b.place for b in blocks(page) if b.language not in known] == []
