"""The alert rules: they fire when they should, speak of what exists, and each has its page."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.packaging.places import DOCS, PACKAGING
from tests.packaging.serving import Serving

from yaffle.model.incident import HoldReason

FOLDER = PACKAGING / "prometheus"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
BY_NAME = [pytest.param(r, id=r["alert"]) for r in RULES]
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="there is no promtool (package prometheus)"
)


def promtool(*words: str, folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["promtool", *words], cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )


@needs_promtool
def test_prometheus_accepts_rules_and_scrapes() -> None:
    for words in (
        ("check", "rules", "alerts.yml"),
        ("check", "config", "--syntax-only", "scrape.yml"),
    ):
        done = promtool(*words)
        assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_the_rules_fire_when_they_should() -> None:
    done = promtool("test", "rules", "alerts.test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_is_seen_to_fire() -> None:
    """The tests of the rules compare whole sets, so a rule that is named there cannot go unseen."""
    text = (FOLDER / "alerts.test.yml").read_text()
    assert set(re.findall(r'alertname="(\w+)"', text)) == {r["alert"] for r in RULES}


def pages_of(rule: dict[str, Any]) -> list[str]:
    """Return the page that a rule names; one for each reason where it names a label."""
    url: str = rule["annotations"]["runbook_url"]
    name = url.removeprefix("https://docs.example.org/yaffle/runbook/")
    assert name != url
    if "{{ $labels.reason }}" not in name:
        return [name]
    reasons = re.search(r'reason=~"([\w|-]+)"', rule["expr"])
    assert reasons
    return [name.replace("{{ $labels.reason }}", r) for r in reasons[1].split("|")]


@pytest.mark.parametrize("rule", BY_NAME)
def test_every_alert_has_its_page(rule: dict[str, Any]) -> None:
    for page in pages_of(rule):
        text = (DOCS / "runbook" / page).read_text()
        assert f"`{rule['alert']}`" in text, f"{page} does not name the alert"


@pytest.mark.parametrize("rule", BY_NAME)
def test_every_alert_says_how_bad_it_is_and_what_it_means(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"]["summary"]


def test_every_reason_to_hold_would_wake_or_tell_somebody() -> None:
    watched: set[str] = set()
    for rule in RULES:
        for found in re.findall(r'yaffle_nodes_held\{reason=~?"([\w|-]+)"\}', rule["expr"]):
            watched.update(found.split("|"))
    assert watched == {r.value for r in HoldReason}


def series_in(expr: str) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """Return each metric that an expression reads, with the labels that it picks."""
    return {
        (name, tuple(sorted(re.findall(r'(\w+)=~?"([^"]*)"', labels))))
        for name, labels in re.findall(r"\b(yaffle_\w+)(?:\{([^}]*)\})?", expr)
    }


def test_every_metric_and_label_of_the_rules_is_one_of_the_programs(tmp_path: Path) -> None:
    """A server that has just begun already shows every series that a rule waits for."""
    with Serving(tmp_path) as server:
        server.until_acting()
        text = httpx.get(f"{server.url}/metrics", timeout=60).text
        missing = [
            (rule["alert"], name, label, value)
            for rule in RULES
            for name, labels in series_in(rule["expr"])
            for label, values in (labels or (("", ""),))
            for value in values.split("|")
            if not re.search(
                rf'^{name}\{{[^}}]*{label}="{value}"[^}}]*\}} ' if label else rf"^{name}[ {{]",
                text,
                re.MULTILINE,
            )
        ]
    assert missing == []


def test_a_metric_that_is_not_there_would_be_seen() -> None:
    assert series_in('sum(yaffle_x{reason=~"a|b"}) > max(yaffle_y)') == {
        ("yaffle_x", (("reason", "a|b"),)),
        ("yaffle_y", ()),
    }
