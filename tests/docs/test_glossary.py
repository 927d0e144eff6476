"""One word for one idea: what the glossary says lives somewhere does, and retired names stay retired."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "yaffle"
GLOSSARY = ROOT / "docs" / "glossary.md"
CODE = re.compile(r"`([^`]+)`")


def rows() -> Iterator[tuple[str, list[str], list[str]]]:
    """Each term with the paths it lives at and the names that it replaced."""
    for line in GLOSSARY.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 4 and cells[0] not in ("term", "---"):
            term, _, place, replaced = cells
            yield term, CODE.findall(place), CODE.findall(replaced)


ROWS = list(rows())


def names() -> set[str]:
    """Every module and public class of the program."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        found.add(path.parent.name if path.stem == "__init__" else path.stem)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found |= {node.name, f"{path.stem}.{node.name}"}
    return found


def test_the_glossary_is_in_order_and_names_each_term_once() -> None:
    terms = [term for term, _, _ in ROWS]
    assert len(terms) > 40
    assert len(set(terms)) == len(terms)


@pytest.mark.parametrize(("term", "places"), [(t, p) for t, p, _ in ROWS], ids=[r[0] for r in ROWS])
def test_a_term_lives_where_the_glossary_says(term: str, places: list[str]) -> None:
    assert places
    for place in places:
        assert (SOURCE / place).exists(), f"{term}: {place}"


def test_a_retired_name_is_no_module_and_no_class_again() -> None:
    retired = {name for _, _, replaced in ROWS for name in replaced}
    assert retired & names() == set()


def test_no_test_of_a_part_is_called_by_its_retired_name() -> None:
    retired = {name for _, _, replaced in ROWS for name in replaced}
    tests = [p for tier in ("unit", "sim") for p in (ROOT / "tests" / tier).rglob("test_*.py")]
    assert len(tests) > 150
    assert {p.stem.removeprefix("test_") for p in tests} & retired == set()


def retired_words() -> dict[str, re.Pattern[str]]:
    """What sentences do not say any more, by the term that they say instead."""
    found = {}
    for line in GLOSSARY.read_text().partition("## Words of sentences")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and (words := CODE.findall(cells[-1])):
            # No part of a name or of a place holder: `numbers.sick`, `{sick}`.
            anyone = "|".join(re.escape(w) if w[0].isupper() else f"(?i:{w})" for w in words)
            found[cells[0]] = re.compile(rf"(?<![\w.{{-])(?:{anyone})(?![\w}}=-])")
    return found


def sentences(path: Path) -> Iterator[str]:
    """The strings of a module that are no single word; docstrings only where they are help."""
    tree = ast.parse(path.read_text())
    docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    shown = {"cli", "native", "clustering"} & set(path.parts)
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and " " in text and (shown or id(node) not in docs):
            yield text


def test_what_people_read_has_no_retired_word() -> None:
    terms = retired_words()
    assert len(terms) > 8
    texts = [(path, text) for path in SOURCE.rglob("*.py") for text in sentences(path)]
    texts += [
        (path, re.sub(r"`[^`\n]*`|\([^)\s]*\)", "", path.read_text()))
        for path in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
        if path != GLOSSARY
    ]
    assert len(texts) > 5_000
    assert [
        (path.name, term, found[0])
        for path, text in texts
        for term, pattern in terms.items()
        if (found := pattern.search(text))
    ] == []


PACKAGES = "core|integrations|model|policy|ports|prober|store"
"""Those of whose names no table of the settings begins."""
REFERENCE = re.compile(rf"`((?:{PACKAGES})(?:\.(?!py`)\w+)+)`")
PLACE = re.compile(r"`(?:src/yaffle/)?((?:\w+/)+\w+\.py)`")


SETTLED = re.compile(r"(?<![/\w])(design|contracts)/([a-z][\w-]*)(?:\.md)?(?:#([\w-]+))?")
"""A page that settles what the code does, and a heading of it."""


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_what_the_code_says_is_settled_somewhere_is_settled_there() -> None:
    lost, found = [], 0
    for file in [*SOURCE.rglob("*.py"), *(ROOT / "tests" / "unit").rglob("*.py")]:
        for folder, name, anchor in SETTLED.findall(file.read_text()):
            page = ROOT / "docs" / folder / f"{name}.md"
            found += 1
            if not page.is_file() or (anchor and anchor not in anchors(page)):
                lost.append((file.name, f"{folder}/{name}#{anchor}"))
    assert found > 50
    assert lost == []


def resolves(reference: str) -> bool:
    """Whether `core.planning.guards` is a module, and `…guards.Guard` a name that stands in it."""
    parts = reference.split(".")
    for count in range(len(parts), 0, -1):
        package = SOURCE.joinpath(*parts[:count])
        for file in (package.with_suffix(".py"), package / "__init__.py"):
            if file.is_file():
                rest = parts[count:]
                return not rest or re.search(rf"\b{rest[0]}\b", file.read_text()) is not None
    return False


def test_what_a_docstring_or_page_refers_to_is_there() -> None:
    files = [*SOURCE.rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    lost = []
    for file in files:
        text = file.read_text()
        lost += [(file.name, r) for r in REFERENCE.findall(text) if not resolves(r)]
        near = (SOURCE, ROOT, file.parent, file.parent.parent)
        lost += [
            (file.name, place)
            for place in PLACE.findall(text)
            if not any((folder / place).exists() for folder in near)
        ]
    assert lost == []
