"""Markdown, and the words that stand beside names in the source: attribute docstrings."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterable, Mapping, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [_row(head), _row(["---"] * len(head))]
    return "\n".join([*lines, *map(_row, rows)])


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ").strip()


def code(value: object) -> str:
    """Return the value as code; nothing for nothing."""
    text = str(value)
    return f"`{text}`" if text else ""


def join(*parts: str) -> str:
    """Return paragraphs, one empty line between two."""
    return "\n\n".join(part.strip("\n") for part in parts if part)


def first_sentence(text: str | None) -> str:
    """Return a docstring's first paragraph in one line."""
    paragraph = inspect.cleandoc(text or "").split("\n\n")[0]
    return " ".join(paragraph.split())


def attribute_docs(owner: type) -> Mapping[str, str]:
    """Return the text below each attribute of a class, as the source has it."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found: dict[str, str] = {}
    for here, below in itertools.pairwise(body):
        name = _name(here)
        if name and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[name] = " ".join(str(below.value.value).split())
    return found


def _name(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None
