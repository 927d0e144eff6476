"""What exists is documented, and the generated pages are those of this very program."""

from __future__ import annotations

import json
import re

import pytest
from docs.generate import pages, stale
from pydantic import BaseModel
from tests.docs.pages import DOCS

from docs.pages import commands, documents, http, settings
from yaffle.config import Settings
from yaffle.core.health.check_codes import OUTCOMES
from yaffle.core.health.diagnosis import PROBLEMS
from yaffle.core.planning.guards import GUARDS
from yaffle.drivers.profiles.local_process import spec as local_process
from yaffle.engine.incidents.lifecycle import TOPICS
from yaffle.engine.runtime.metrics import Metrics
from yaffle.model.incident import HoldReason, IncidentState
from yaffle.policy.document import GRAMMARS
from yaffle.policy.lint import HAZARDS

RUNBOOK = DOCS / "runbook"


@pytest.fixture(scope="module")
def fresh() -> dict[str, str]:
    return pages()


def test_the_pages_are_fresh() -> None:
    assert stale() == [], "run `make docs`"


ALERTS = (DOCS.parent / "packaging/prometheus/alerts.yml").read_text()
HOLD = ("see", "means", "Why Yaffle waits", "check", "How to lift it", "happens then")
ALERT = ("see", "means", "What Yaffle does meanwhile", "check", "How to mend it", "happens then")


def headings(page: str) -> list[str]:
    text = (RUNBOOK / f"{page}.md").read_text()
    return re.findall(r"^## (.*)$", text, re.MULTILINE)


def test_every_reason_to_hold_has_its_page_and_every_page_its_reason_or_its_alert() -> None:
    pages = {p.stem for p in RUNBOOK.glob("*.md")} - {"README"}
    assert pages >= set(HoldReason)
    assert {p for p in pages - set(HoldReason) if f"/runbook/{p}.md" not in ALERTS} == set()


@pytest.mark.parametrize("reason", list(HoldReason))
def test_a_page_of_a_reason_says_what_to_see_and_what_to_do(reason: HoldReason) -> None:
    text = (RUNBOOK / f"{reason.value}.md").read_text()
    assert text.startswith(f"# `{reason.value}`: ")
    assert "Numbers: " in text
    said = headings(reason.value)
    assert [part in title for part, title in zip(HOLD, said, strict=True)] == [True] * len(HOLD)


@pytest.mark.parametrize(
    "page", sorted({p.stem for p in RUNBOOK.glob("*.md")} - {"README", *HoldReason})
)
def test_a_page_of_an_alert_says_what_to_see_and_what_to_do(page: str) -> None:
    said = headings(page)
    assert [part in title for part, title in zip(ALERT, said, strict=True)] == [True] * len(ALERT)


def test_every_page_of_the_runbook_is_in_its_table() -> None:
    table = (RUNBOOK / "README.md").read_text()
    assert [p.name for p in RUNBOOK.glob("[a-z]*.md") if f"]({p.name})" not in table] == []


def _leaves(model: type[BaseModel], prefix: str = "") -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found += _leaves(kind, f"{prefix}{name}.")
        else:
            found.append(f"{prefix}{name}")
    return found


def test_every_setting_is_documented_and_described(fresh: dict[str, str]) -> None:
    rows = re.findall(
        r"^\| `([\w.]+)` \| `YAFFLE_\w+` \| .* \| (.*) \|$", fresh["settings.md"], re.MULTILINE
    )
    assert [name for name, _ in rows] == _leaves(Settings)
    assert [name for name, meaning in rows if not meaning.strip()] == []


def test_every_metric_is_documented(fresh: dict[str, str]) -> None:
    names = {
        family.name + ("_total" if family.type == "counter" else "")
        for registry in (Metrics().registry, Metrics().listener)
        for family in registry.collect()
    }
    assert names == set(re.findall(r"^\| `(yaffle_\w+)`", fresh["metrics.md"], re.MULTILINE))


def test_metrics_that_pages_speak_of_exist(fresh: dict[str, str]) -> None:
    known = set(re.findall(r"^\| `(yaffle_\w+)`", fresh["metrics.md"], re.MULTILINE))
    spoken = {
        (page.name, word)
        for page in DOCS.rglob("*.md")
        for word in re.findall(r"\byaffle_[a-z_]+(?=[ `{\[])", page.read_text())
    }
    assert {(page, word) for page, word in spoken if word not in known} == set()


def test_every_outcome_and_problem_is_documented(fresh: dict[str, str]) -> None:
    codes = set(re.findall(r"^\| `([\w-]+)`", fresh["outcomes.md"], re.MULTILINE))
    assert codes >= {*OUTCOMES, *(p.code for p in PROBLEMS)}


def test_every_guard_and_incident_state_is_documented(fresh: dict[str, str]) -> None:
    order = re.findall(r"^\| \d+ \| \[`([\w-]+)`\]", fresh["guards.md"], re.MULTILINE)
    assert order[: len(GUARDS)] == [b.reason.value for b in GUARDS]
    assert set(order) == set(HoldReason)
    states = set(re.findall(r"^\| `([\w-]+)` \|", fresh["incidents.md"], re.MULTILINE))
    assert states >= set(IncidentState)
    assert all(f"`{topic}`" in fresh["incidents.md"] for topic in TOPICS.values())


def test_every_key_of_a_policy_is_described() -> None:
    keys = {
        ".".join((*where[-1:], key))
        for grammar in GRAMMARS.values()
        for where, shape in grammar.shapes.items()
        for key in shape.model_fields
    }
    assert keys == set(documents.WORDS)


def test_every_hazard_is_described() -> None:
    assert set(documents.DANGERS) == {h.code for h in HAZARDS}


def test_every_command_and_option_is_described() -> None:
    tree = dict(commands.walk(commands.root()))
    silent = [words for words, command in tree.items() if not command.help]
    silent += [
        f"{words} {p.name}"
        for words, command in tree.items()
        for p in command.params
        if p.param_type_name == "option" and not p.help
    ]
    assert silent == []


def test_every_route_says_what_it_does() -> None:
    described = http.document()
    silent = [
        f"{method} {path}"
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if not operation.get("description")
    ]
    assert silent == []
    json.dumps(described)


def test_every_property_of_a_local_process_is_described() -> None:
    defaults = local_process.validate({"command": ["x"]})
    assert set(defaults) == set(settings.PROPERTIES)


def test_every_driver_of_ours_is_documented(fresh: dict[str, str]) -> None:
    from importlib.metadata import entry_points

    names = {
        point.name
        for port in settings.PORTS
        for point in entry_points(group=f"yaffle.{port}")
        if point.value.startswith("yaffle.")
    }
    assert all(f"`{name}`" in fresh["drivers.md"] for name in names)
