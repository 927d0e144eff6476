"""Play *.story files: commands, four dashes, then everything that the core said to them.

pytest tests/scenarios --rewrite      write what is said now into the files; then read the diff
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import unified_diff
from pathlib import Path

import pytest
from tests.scenarios.stage import Stage

RULE = "----"


class StoryChanged(Exception):
    """The core no longer says what the story has recorded."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write the new answers into the story files"
    )


def blocks(text: str) -> Iterable[list[str]]:
    """Yield what stands above each rule: comments and commands, without the answers."""
    above: list[str] = []
    answering = False
    for line in text.splitlines():
        if line == RULE:
            answering = True
            yield above
            above = []
        elif not line:
            answering = False
        elif not answering:
            above.append(line)
    if above:
        raise ValueError(f"commands without a rule below them: {above}")


def replay(text: str) -> str:
    """Return the story with the answers that the core gives now."""
    stage = Stage()
    told = []
    for block in blocks(text):
        printed: list[str] = []
        for line in block:
            if not line.startswith("#"):
                printed += stage.play(line)
        told.append("\n".join([*block, RULE, *printed]))
    return "\n\n".join(told) + "\n"


class Story(pytest.Item):
    """One file, one test."""

    def runtest(self) -> None:
        old = self.path.read_text()
        new = replay(old)
        if new == old:
            return
        if self.config.getoption("--rewrite", default=False):
            self.path.write_text(new)
            return
        diff = unified_diff(old.splitlines(), new.splitlines(), "recorded", "now", lineterm="")
        raise StoryChanged("\n".join(diff))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]
        if isinstance(excinfo.value, StoryChanged):
            return f"{excinfo.value}\n\nIf this is meant: pytest tests/scenarios --rewrite"
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"story: {self.name}"


class StoryFile(pytest.File):
    """A file that holds one story."""

    def collect(self) -> Iterable[Story]:
        yield Story.from_parent(self, name=self.path.stem)


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> StoryFile | None:
    if file_path.suffix != ".story":
        return None
    return StoryFile.from_parent(parent, path=file_path)
