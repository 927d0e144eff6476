"""Reads a Containerfile as far as ours goes: instructions, their stage, lines joined."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One instruction."""

    stage: str
    """Its stage's name; empty for the last one."""
    word: str
    rest: str

    @property
    def args(self) -> list[str]:
        """The exec form as a list; [] for any other."""
        found = re.search(r"\[.*\]$", self.rest)
        return list(json.loads(found[0])) if found else []


def steps(path: Path) -> list[Step]:
    """Return the instructions in their order."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE)
    text = re.sub(r"\\\n\s*", "", text)
    found, stage = [], ""
    for line in filter(None, text.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stage = rest.partition(" AS ")[2]
        found.append(Step(stage=stage, word=word, rest=rest))
    return found
