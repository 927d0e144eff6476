"""The driver in docs/howto/write-a-driver.md works as it stands there, and is as short as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "write-a-driver.md"
BLOCK = re.compile(r"<!-- (\w+) -->\n```python\n(.*?)```", re.DOTALL)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = dict(BLOCK.findall(PAGE.read_text()))
    assert set(blocks) == {"driver", "check", "alerts", "check_alerts"}
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for name in ("driver", "check"):
        exec(compile(blocks[name], f"{PAGE.name}:{name}", "exec"), names)
    told = [json.loads(line) for line in (tmp_path / "news.jsonl").read_text().splitlines()]
    assert [t["topic"] for t in told] == ["incident.opened"]


def test_its_alert_driver_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = dict(BLOCK.findall(PAGE.read_text()))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for name in ("alerts", "check_alerts"):
        exec(compile(blocks[name], f"{PAGE.name}:{name}", "exec"), names)
    (spooled,) = tmp_path.glob("*.json")
    assert json.loads(spooled.read_text())["host"] == "compute1.example.org"


@pytest.mark.parametrize("name", ["driver", "alerts"])
def test_it_is_as_short_as_it_says(name: str) -> None:
    code = dict(BLOCK.findall(PAGE.read_text()))[name]
    lines = [x for x in code.splitlines() if x.strip() and not x.startswith('"""')]
    assert len(lines) <= 30
