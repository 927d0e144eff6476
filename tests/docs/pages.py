"""The pages of the documentation, and what stands in their fences."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"

_FENCE: Final = re.compile(r"^(?P<indent> *)```(?P<info>.*)$")


def pages() -> list[Path]:
    """Return every page, the generated ones included."""
    return sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def name_of(page: Path) -> str:
    """Return a page's name for messages."""
    return str(page.relative_to(ROOT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block."""

    page: str
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"{self.page}:{self.line}"

    def word(self, key: str) -> str | None:
        """Return the value of `key=value` in the fence's first line."""
        found = [w.partition("=")[2] for w in self.words if w.startswith(f"{key}=")]
        return found[0] if found else None


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in their order."""
    found: list[Block] = []
    inside: tuple[int, str, list[str]] | None = None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if fence is None:
            if inside is not None:
                inside[2].append(line)
        elif inside is None:
            inside = (number, fence["info"], [])
        else:
            language, *words = inside[1].split() or [""]
            # Inside a list item the whole block is indented.
            text = textwrap.dedent("\n".join(inside[2])) + "\n"
            found.append(
                Block(
                    page=name_of(page),
                    line=inside[0],
                    language=language,
                    words=tuple(words),
                    text=text,
                )
            )
            inside = None
    assert inside is None, f"{name_of(page)}:{inside and inside[0]}: a fence without its end"
    return found


def prose(page: Path) -> str:
    """Return a page without its fenced blocks, line by line as it was."""
    lines, inside = [], False
    for line in page.read_text().splitlines():
        if _FENCE.match(line):
            inside = not inside
            lines.append("")
        else:
            lines.append("" if inside else line)
    return "\n".join(lines)
